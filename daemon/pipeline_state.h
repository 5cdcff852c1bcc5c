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
int pipeline_make_ship(struct pipeline *p, const struct config *c, struct ship **ret);
void pipeline_tell_addresses(const struct pipeline *p);
/* (Re)starts the delivery timer; none if nothing is shipped. */
int pipeline_start_ship_timer(struct pipeline *p);
