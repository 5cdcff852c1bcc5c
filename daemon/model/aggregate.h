/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Totals and rates per cgroup: the one table that sources fill and sinks read. Knows no clock and no descriptor.
 *
 * An *entry* is a series: a label (the cgroup's path as UTF-8), its totals and its windows. A *binding* ties one kernel
 * cgroup id to an entry while the id lives. A cgroup recreated under the same path gets a new binding to the same
 * entry, so its series goes on. A dead entry stays until every sink has reported it once (or until room or time runs
 * out), then its totals fold into the entry `other`: the sum over all entries never goes back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/model/bad_access.h"
#include "daemon/model/fault.h"
#include "daemon/model/identity.h"
#include "daemon/model/window.h"

struct aggregate;

struct aggregate_options {
	uint32_t max_cgroups; /* entries besides `other` that may be alive at once */
	uint32_t max_ids;     /* ids that may be bound at once, folded ones included */
	uint64_t interval_ns;
	const uint64_t *windows_ns; /* ascending, n_windows of them */
	size_t n_windows;
	uint32_t sinks;       /* bit set of the sinks that report; a dead entry waits for these */
	uint64_t linger_ns;   /* but no longer than this */
	uint64_t now_ns;      /* monotonic: counting begins */
	uint64_t now_unix_ns; /* the same instant on the wall clock */
};

/* Bits of aggregate_options.sinks */
#define AGGREGATE_SINK_SCRAPE (1u << 0)
#define AGGREGATE_SINK_SHIP (1u << 1)

struct cgroup_entry {
	const struct identity *identity; /* never NULL */
	uint64_t faults[FAULT_CLASSES_ALL];
	uint64_t major; /* meaningful if has_major */
	bool has_major;
	const struct bad_counts *bad;          /* NULL: none so far */
	const struct bad_latencies *latencies; /* NULL: none measured */
	bool dead;
	uint64_t start_unix_ns; /* when this series' counting began: no count in it is older */
};

int aggregate_new(const struct aggregate_options *options, struct aggregate **ret);
struct aggregate *aggregate_free(struct aggregate *a);

/* ---- for sources, through the pipeline ---- */

/* True if the id has a binding. Id 0 is always bound, to `other`. */
bool aggregate_knows(const struct aggregate *a, uint64_t id);
/* Binds a cgroup id to the entry of its label. Takes over `identity` (always, on failure too); NULL folds the id into
 * `other`. With no room for another live entry the id folds into `other` and *ret_over_limit is set. -EEXIST, -ENOSPC
 * (too many ids), -ENOMEM. */
int aggregate_bind(struct aggregate *a, uint64_t id, struct identity *identity, bool *ret_over_limit);
/* Adds what a source counted since it last told. Ids without a binding count as `other`. */
void aggregate_faults(struct aggregate *a, uint64_t id, const uint64_t growth[FAULT_CLASSES]);
/* The same from a source that knows no classes. */
void aggregate_faults_unclassed(struct aggregate *a, uint64_t id, uint64_t growth);
/* Adds bad accesses that a source counted since it last told. Ids without a binding count as `other`. */
void aggregate_bad(struct aggregate *a, uint64_t id, const struct bad_counts *growth);
void aggregate_latencies(struct aggregate *a, uint64_t id, const struct bad_latencies *growth);
/* Major faults of the cgroup at `path`; without an entry of its own they count for its nearest ancestor that has one,
 * else for `other`. */
void aggregate_major(struct aggregate *a, const char *path, uint64_t growth);
void aggregate_major_other(struct aggregate *a, uint64_t growth);
/* The cgroup is gone and its last counts were added. Its entry is dead when no other id is bound to it. Unknown ids are
 * ignored. */
void aggregate_unbind(struct aggregate *a, uint64_t id, uint64_t now_ns);
/* The identity that the id is bound under; NULL if unknown or folded. */
const struct identity *aggregate_identity(const struct aggregate *a, uint64_t id);
/* Calls `visit` for each bound id but 0; the callback may unbind the id that it is handed. */
void aggregate_visit(struct aggregate *a, void (*visit)(uint64_t id, bool folded, void *userdata), void *userdata);
/* Ends a tick: what came since the last one enters the windows; dead entries that are due leave. Entries bound from now
 * on began to count at this instant at the earliest. */
void aggregate_tick(struct aggregate *a, uint64_t now_ns, uint64_t now_unix_ns);
/* Windows and interval changed by a reload: totals stay, rates begin anew. -EINVAL, -ENOMEM (then nothing changed). */
int aggregate_rewindow(struct aggregate *a, uint64_t interval_ns, const uint64_t *windows_ns, size_t n_windows,
		       uint64_t now_ns);
/* Deaths so far. A sink notes it with its snapshot and hands it back when the snapshot has reached the reader. */
uint64_t aggregate_deaths(const struct aggregate *a);
/* Sink `bit` has reported all entries as they were when `deaths` had happened: the dead among them that all sinks have
 * reported leave at the next tick. */
void aggregate_reported(struct aggregate *a, uint32_t bit, uint64_t deaths);
void aggregate_set_sinks(struct aggregate *a, uint32_t sinks);

/* ---- for sinks ---- */

/* Entries are at 0 .. aggregate_size()-1, `other` at 0; NULL where none is. */
size_t aggregate_size(const struct aggregate *a);
const struct cgroup_entry *aggregate_entry(const struct aggregate *a, size_t at);
/* Whether sinks show the entry at `at`: a cgroup that never faulted and made no bad access, as most slices, is left out; `other` always is there, so
 * that no family is ever empty. False where none is. */
bool aggregate_is_shown(const struct aggregate *a, size_t at);
/* Live and dead entries besides `other`. */
size_t aggregate_live(const struct aggregate *a);
size_t aggregate_dead(const struct aggregate *a);
uint32_t aggregate_max(const struct aggregate *a);
/* Ids that can be bound at once. */
uint32_t aggregate_max_ids(const struct aggregate *a);
size_t aggregate_windows(const struct aggregate *a);
uint64_t aggregate_window_ns(const struct aggregate *a, size_t w);
/* Faults per second of the entry at `at` over window `w`. */
double aggregate_rate(const struct aggregate *a, size_t at, size_t w);
/* The same for a group of classes; only over window 0, the shortest. */
double aggregate_class_rate(const struct aggregate *a, size_t at, fault_class_set set);
/* Bad accesses per second of the entry at `at` over window `w`, with this outcome. */
double aggregate_bad_rate(const struct aggregate *a, size_t at, enum bad_outcome outcome, size_t w);
