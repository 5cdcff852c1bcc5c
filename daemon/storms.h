/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storms of this host: joins the configuration's rules, the machine that finds storms, the evidence from sampled faults and what is
 * kept over a restart. Belongs to the pipeline.
 */
#pragma once

#include <stdint.h>

#include "config/config.h"
#include "daemon/model/aggregate.h"
#include "daemon/model/evidence.h"
#include "daemon/model/self.h"
#include "daemon/model/snapshot.h"
#include "daemon/model/storm.h"

struct storms;

/* The aggregate, the book and the counters are borrowed. `published` is called when a storm begins or ends; the event is borrowed for
 * the length of the call. Storms that a daemon before this one left behind go on. -ENOMEM. */
int storms_new(const struct config *config, const struct aggregate *aggregate, const struct evidence_book *book,
	       struct self_stats *self, uint64_t now_ns, uint64_t now_unix_ns,
	       void (*published)(const struct storm_event *event, void *userdata), void *userdata, struct storms **ret);
/* Leaves behind the storms that last. Accepts NULL, returns NULL. */
struct storms *storms_free(struct storms *s);
/* Takes over the rules of a new configuration; storms of rules that are gone end. -ENOMEM (then nothing changed). */
int storms_configure(struct storms *s, const struct config *config, uint64_t now_ns, uint64_t now_unix_ns);
/* Once an interval, after aggregate_tick(). The same instant on the monotonic and the wall clock. */
void storms_tick(struct storms *s, uint64_t now_ns, uint64_t now_unix_ns);

/* Fills in the snapshot's storms and rules; borrowed until the next call of storms_*(). */
void storms_snapshot(struct storms *s, uint64_t now_ns, struct snapshot *ret);
/* The oldest kept event numbered above `after`, borrowed until the next call of storms_*(); NULL if none. */
const struct storm_event *storms_next(const struct storms *s, uint64_t after);
