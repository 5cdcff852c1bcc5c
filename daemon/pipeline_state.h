/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the pipeline is made of, for the two files that work on it: pipeline.c builds and runs it, reload.c changes it while it
 * runs.
 */
#pragma once

#include "daemon/announce.h"
#include "daemon/census.h"
#include "daemon/crashes.h"
#include "daemon/ladder.h"
#include "daemon/model/aggregate.h"
#include "daemon/model/snapshot.h"
#include "daemon/pipeline.h"
#include "daemon/sink/queue.h"
#include "daemon/sink/scrape.h"
#include "daemon/sink/ship.h"
#include "daemon/source/host.h"

struct pipeline {
	sd_event *event;
	struct config *config;
	const char *config_file;
	struct self_stats self;
	struct host host;

	struct cgroup_mounts mounts;
	struct ladder ladder;
	struct aggregate *aggregate;
	struct census *census;
	struct crashes *crashes;
	struct announce *announce;
	struct probe_info probes[3];
	struct vma_lock_stats vma_lock;

	struct scrape *scrape;
	struct queue *queue;
	struct ship *ship;
	uint64_t crash_shipped; /* number of the last crash that was encoded for the collector */

	sd_event_source *tick_timer, *ship_timer, *life, *crash_records;
	uint64_t next_tick_ns, next_ship_ns, last_status_ns;
	bool trimmed;
};

/* Sets a timer to go off once at `at_ns` on the monotonic clock. */
int pipeline_arm(sd_event_source *timer, uint64_t at_ns);
/* The sinks that a configuration switches on, as bits of the aggregate. */
uint32_t pipeline_sinks(const struct config *c);
/* Make a sink as a configuration wants it; *ret stays NULL if it is switched off. */
int pipeline_make_scrape(struct pipeline *p, const struct config *c, struct scrape **ret);
void pipeline_tell_addresses(const struct pipeline *p);
/* The state of the world now. */
void pipeline_snapshot(struct pipeline *p, struct snapshot *ret);
int pipeline_make_timer(struct pipeline *p, uint64_t at_ns, sd_event_time_handler_t handler, int64_t priority,
			sd_event_source **ret);
/* The next multiple of the interval: a late turn does not shift those after it, a long sleep does not bring a burst of
 * them. */
uint64_t pipeline_next_after(uint64_t due_ns, uint64_t interval_ns, uint64_t now_ns);
