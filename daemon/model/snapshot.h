/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sink is handed, read-only and valid for the length of the call: the state of the world at one instant.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/model/aggregate.h"
#include "daemon/model/self.h"
#include "daemon/model/storm.h"

struct probe_info {
	const char *probe;   /* "page_faults", "major_page_faults" */
	const char *backend; /* "tracepoint", "memory.stat", "off", ... */
};

/* What the kernel says about this process; 0 where it is not known. */
struct process_stats {
	uint64_t cpu_ns;        /* user and system time */
	uint64_t start_unix_ns; /* read once: a constant for the process' life */
	uint64_t virtual_bytes;
	uint64_t resident_bytes;
	uint64_t open_fds;
	uint64_t max_fds;
};

/* How page faults found their mapping, of the whole host since boot (/proc/vmstat). */
struct vma_lock_stats {
	uint64_t success; /* under the lock of the mapping */
	uint64_t abort;   /* had to take the lock of the whole address space */
	uint64_t retry;   /* began so, and had to go on the other way */
	uint64_t miss;    /* the mapping's lock was busy */
};

struct snapshot {
	uint64_t now_ns;      /* monotonic */
	uint64_t now_unix_ns; /* the same instant on the wall clock */
	const struct aggregate *aggregate;
	uint64_t
	    deaths; /* aggregate_deaths() at this instant; goes back to the pipeline when the snapshot has reached a reader */
	const struct self_stats *self;
	const struct probe_info *probes;
	size_t n_probes;
	const struct vma_lock_stats *vma_lock;      /* NULL: this kernel does not count */
	uint32_t bad_signals;                       /* bits 1 << enum bad_signal: whose deliveries are counted */
	const struct storm_rule_stats *storm_rules; /* in the order of the configuration */
	size_t n_storm_rules;
	const struct storm *const *storms; /* that last, the oldest first */
	size_t n_storms;
	const struct process_stats *process; /* filled in by the sink that tells it; NULL: not told */
};
