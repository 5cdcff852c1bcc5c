/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the aggregate keeps its series: places in one piece of memory, found by number or by label. Private to the
 * aggregate.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/table.h"
#include "daemon/model/aggregate.h"
#include "daemon/model/window.h"

#define PLACE_NONE UINT32_MAX

struct entry {
	struct cgroup_entry shown; /* first: sinks get a pointer to it */
	struct identity *identity; /* NULL: the place is free */
	struct entry *same_hash;   /* next entry whose label has the same hash */
	uint64_t pending[FAULT_CLASSES_ALL];
	struct bad_counts *bad;          /* owned; shown.bad is the same; NULL until the first */
	struct bad_latencies *latencies; /* the same */
	uint64_t bad_pending[BAD_OUTCOMES];
	bool has_pending;
	uint32_t bindings;
	uint32_t next_free;
	uint32_t reported;     /* bits of the sinks that have shown it since it died */
	uint64_t death_number; /* orders deaths against snapshots */
	uint64_t died_ns;
	/* Behind the struct: the series of all faults over all windows. */
};

struct places {
	uint32_t capacity;
	uint32_t used; /* places below were used once; those above are still untouched memory */
	uint32_t free; /* list of places that were left */
	size_t entry_bytes, class_bytes;
	char *memory;       /* [place] */
	char *class_memory; /* [class][place]: series of single classes; those that nobody counts cost no memory */
	char *bad_memory; /* [outcome][place]: series of bad accesses over all windows, as cheap while there are none */
	struct table *by_label;            /* hash of label -> struct entry, chained by same_hash */
	struct window_clock *windows;      /* of all faults */
	struct window_clock *class_window; /* of single classes: the shortest window only */
};

/* Embedded. `capacity` places for series with these windows. -EINVAL, -ENOMEM; then *p needs no places_done(). */
int places_init(struct places *p, uint32_t capacity, uint64_t interval_ns, const uint64_t *windows_ns, size_t n_windows,
		uint64_t now_ns);
void places_done(struct places *p);
/* The same entries at the same places with other windows, which begin anew. On failure nothing changes. */
int places_rewindow(struct places *p, uint64_t interval_ns, const uint64_t *windows_ns, size_t n_windows,
		    uint64_t now_ns);

struct entry *places_at(const struct places *p, uint32_t at);
uint32_t places_number(const struct places *p, const struct entry *e);
struct entry *places_find(const struct places *p, const char *label);
/* Takes a free place for `identity` (owned by the entry from then on, on success). -ENOSPC when all are taken, -ENOMEM.
 */
int places_take(struct places *p, struct identity *identity, struct entry **ret);
/* Frees the entry's identity, its counts of bad accesses and its place. */
void places_leave(struct places *p, struct entry *e);

struct window_series *places_total(struct entry *e);
struct window_series *places_bad(const struct places *p, struct entry *e, enum bad_outcome outcome);
struct window_series *places_class(const struct places *p, struct entry *e, uint32_t class);
