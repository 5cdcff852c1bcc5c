/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes to the collector, and when: a snapshot and the new crashes once an interval. Belongs to the pipeline: it joins the encoders,
 * the queue and the shipper.
 */
#pragma once

#include "daemon/pipeline_state.h"

/* Makes the shipper as a configuration wants it; *ret stays NULL if it is switched off. -errno. */
int delivery_make_ship(struct pipeline *p, const struct config *c, struct ship **ret);
/* (Re)starts the timer of deliveries; none if nothing is shipped. -errno. */
int delivery_start_timer(struct pipeline *p);
/* A crash was published. It goes with the next delivery, or before the history could forget it. */
void delivery_crash(struct pipeline *p, const struct crash *crash);
