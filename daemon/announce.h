/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is told of a crash, and where: the journal and the local socket. Belongs to the pipeline: it joins sinks. What of them cannot be
 * had is said in the log, and the daemon goes on without.
 */
#pragma once

#include <systemd/sd-event.h>

#include "config/config.h"
#include "daemon/model/crash.h"
#include "daemon/model/self.h"
#include "daemon/sink/control.h"

struct announce;

/* The event loop and the counters are borrowed. -ENOMEM. */
int announce_new(sd_event *event, const struct config *config, const struct control_handlers *handlers,
		 struct self_stats *self, struct announce **ret);
struct announce *announce_free(struct announce *a);
/* Takes over a new configuration: sockets that are asked for in the same way stay. */
void announce_configure(struct announce *a, const struct config *config);
void announce_crash(struct announce *a, const struct crash *crash);
/* From the configuration's word to the model's. */
enum crash_disclosure announce_disclosure(const struct config *config);
