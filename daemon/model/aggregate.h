/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Totals and rates per cgroup: the one table that sources fill and sinks read. Knows no clock and no descriptor.
 *
 * An *entry* is a series: a label (the cgroup's path as UTF-8), its totals and its windows. A *binding* ties one kernel cgroup
 * id to an entry while the id lives. A cgroup recreated under the same path gets a new binding to the same entry, so its series
 * goes on. A dead entry stays until every sink has reported it once (or until room or time runs out), then its totals
 * fold into the entry `other`: the sum over all entries never goes back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/model/fault.h"
#include "daemon/model/identity.h"
#include "daemon/model/window.h"

struct aggregate;

struct aggregate_options {
	uint32_t max_cgroups; /* entries besides `other` that may be alive at once */
	uint64_t interval_ns;
	const uint64_t *windows_ns; /* ascending, n_windows of them */
	size_t n_windows;
	uint32_t sinks;		 /* bit set of the sinks that report; a dead entry waits for these */
	uint64_t linger_ns;	 /* but no longer than this */
	uint64_t now_ns;	 /* monotonic: counting begins */
	uint64_t now_unix_ns;	 /* the same instant on the wall clock */
};

/* Bits of aggregate_options.sinks */
#define AGGREGATE_SINK_SCRAPE (1u << 0)
#define AGGREGATE_SINK_SHIP (1u << 1)

struct cgroup_entry {
	const struct identity *identity; /* never NULL */
	uint64_t faults[FAULT_CLASSES_ALL];
	uint64_t major;		 /* meaningful if has_major */
	bool has_major;
	bool dead;
	uint64_t start_unix_ns; /* when this series' counting began: no count in it is older */
};

int aggregate_new(const struct aggregate_options *options, struct aggregate **ret);
struct aggregate *aggregate_free(struct aggregate *a);

/* ---- for sources, through the pipeline ---- */

/* True if the id has a binding. */
bool aggregate_knows(const struct aggregate *a, uint64_t id);
/* Binds a cgroup id. Takes over `identity` (always, on failure too); NULL folds the id into `other`. With no room for another
 * entry the id folds into `other` and *ret_folded is set. `ret_folded` may be NULL. -EEXIST, -ENOMEM. */
int aggregate_bind(struct aggregate *a, uint64_t id, struct identity *identity, uint64_t now_ns, uint64_t now_unix_ns,
		   bool *ret_folded);
/* New running totals of a bound id, as its source counts them: only the growth since the last call is added. Id 0 is always
 * bound, to `other`. Unknown ids are ignored. */
void aggregate_faults(struct aggregate *a, uint64_t id, const uint64_t counts[FAULT_CLASSES]);
/* Totals of a source that knows no classes. */
void aggregate_faults_unclassed(struct aggregate *a, uint64_t id, uint64_t delta);
void aggregate_major(struct aggregate *a, uint64_t id, uint64_t delta);
/* The cgroup is gone and its last counts were added. Unknown ids are ignored. */
void aggregate_unbind(struct aggregate *a, uint64_t id, uint64_t now_ns);
/* Filters changed: the id's totals go on in another series (NULL identity: in `other`); nothing is counted twice or lost. */
int aggregate_rebind(struct aggregate *a, uint64_t id, struct identity *identity, uint64_t now_ns, uint64_t now_unix_ns);
/* The path that the id is bound under; NULL if unknown or folded. */
const struct identity *aggregate_identity(const struct aggregate *a, uint64_t id);
/* Ends a tick: what came since the last one enters the windows; dead entries that are due leave. */
void aggregate_tick(struct aggregate *a, uint64_t now_ns);
/* Windows and interval changed by a reload: totals stay, rates begin anew. -EINVAL, -ENOMEM (then nothing changed). */
int aggregate_rewindow(struct aggregate *a, uint64_t interval_ns, const uint64_t *windows_ns, size_t n_windows,
		       uint64_t now_ns);
/* Sink `bit` has reported all entries: dead ones that have now been seen by all sinks leave at the next tick. */
void aggregate_reported(struct aggregate *a, uint32_t bit);
void aggregate_set_sinks(struct aggregate *a, uint32_t sinks);

/* ---- for sinks ---- */

/* Entries are at 0 .. aggregate_size()-1, `other` at 0; NULL where none is. */
size_t aggregate_size(const struct aggregate *a);
const struct cgroup_entry *aggregate_entry(const struct aggregate *a, size_t at);
/* Live entries besides `other`. */
size_t aggregate_live(const struct aggregate *a);
size_t aggregate_windows(const struct aggregate *a);
uint64_t aggregate_window_ns(const struct aggregate *a, size_t w);
/* Faults per second of the entry at `at` over window `w`. */
double aggregate_rate(const struct aggregate *a, size_t at, size_t w);
/* The same for a group of classes; only over window 0, the shortest. */
double aggregate_class_rate(const struct aggregate *a, size_t at, fault_class_set set);
