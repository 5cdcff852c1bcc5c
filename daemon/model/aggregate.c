/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/table.h"
#include "daemon/model/places.h"

#define OTHER 0 /* its place */

struct binding {
	uint64_t id;
	uint32_t entry;
	uint32_t next_free;
};

struct aggregate {
	uint32_t max_cgroups;
	struct places places; /* for `other`, the living, and as many dead that wait */
	uint32_t live, dead;

	uint32_t max_ids;
	struct binding *bindings;
	uint32_t free_binding;
	struct table *by_id; /* id -> struct binding */

	uint32_t sinks;
	uint64_t linger_ns;
	uint64_t deaths;
	uint64_t counted_from_unix_ns; /* the last tick: what is bound later has counted since then at the earliest */
};

static struct entry *other(const struct aggregate *a)
{
	return places_at(&a->places, OTHER);
}

/* ---- entries ---- */

/* The entry's counts of bad accesses, made at the first. Without memory they are those of `other`, which has them from the start. */
static struct entry *with_bad(const struct aggregate *a, struct entry *e)
{
	if (!e->bad)
		e->bad = calloc(1, sizeof(*e->bad));
	e->shown.bad = e->bad;
	return e->bad ? e : other(a);
}

static struct entry *with_latencies(const struct aggregate *a, struct entry *e)
{
	if (!e->latencies)
		e->latencies = calloc(1, sizeof(*e->latencies));
	e->shown.latencies = e->latencies;
	return e->latencies ? e : other(a);
}

static void add_latencies(struct bad_latencies *into, const struct bad_latencies *from)
{
	for (uint32_t b = 0; b < BAD_LATENCY_BUCKETS; b++)
		into->bucket[b] += from->bucket[b];
	into->sum_ns += from->sum_ns;
}

static void add_bad(struct bad_counts *into, const struct bad_counts *from)
{
	for (uint32_t o = 0; o < BAD_OUTCOMES; o++)
		for (uint32_t c = 0; c < BAD_CLASSES; c++)
			into->count[o][c] += from->count[o][c];
}

/* The totals and what the windows hold go on in `other`. */
static void leave(struct aggregate *a, struct entry *e)
{
	struct cgroup_entry *o = &other(a)->shown;

	for (uint32_t c = 0; c < FAULT_CLASSES_ALL; c++)
		o->faults[c] += e->shown.faults[c];
	o->major += e->shown.major;
	o->has_major |= e->shown.has_major;
	window_series_merge(a->places.windows, places_total(other(a)), places_total(e));
	for (uint32_t c = 0; c < FAULT_CLASSES_ALL; c++)
		window_series_merge(a->places.class_window, places_class(&a->places, other(a), c),
				    places_class(&a->places, e, c));
	if (e->bad)
		add_bad(other(a)->bad, e->bad);
	if (e->latencies && with_latencies(a, other(a))->latencies)
		add_latencies(other(a)->latencies, e->latencies);
	for (uint32_t outcome = 0; outcome < BAD_OUTCOMES; outcome++)
		window_series_merge(a->places.windows, places_bad(&a->places, other(a), outcome),
				    places_bad(&a->places, e, outcome));
	places_leave(&a->places, e);
	a->dead--;
}

static struct entry *oldest_dead(const struct aggregate *a)
{
	struct entry *oldest = NULL;

	for (uint32_t at = 1; a->dead && at < a->places.used; at++) {
		struct entry *e = places_at(&a->places, at);

		if (e->identity && e->shown.dead && (!oldest || e->death_number < oldest->death_number))
			oldest = e;
	}
	return oldest;
}

/* Takes over `identity`, always. If no place is left, the dead that died first gives way. */
static int make_entry(struct aggregate *a, struct identity *identity, struct entry **ret)
{
	struct entry *oldest;
	int r = places_take(&a->places, identity, ret);

	if (r == -ENOSPC && (oldest = oldest_dead(a))) {
		leave(a, oldest);
		r = places_take(&a->places, identity, ret);
	}
	if (r < 0) {
		identity_free(identity);
		return r;
	}
	(*ret)->shown.start_unix_ns = a->counted_from_unix_ns;
	return 0;
}

/* The entry that `identity` belongs to, made or revived if need be; `other` when the living are too many. Takes over
 * `identity`. */
static int find_or_make(struct aggregate *a, struct identity *identity, bool *ret_over_limit, struct entry **ret)
{
	struct entry *e = places_find(&a->places, identity->label);
	int r;

	if ((e && !e->shown.dead) || a->live >= a->max_cgroups) {
		identity_free(identity);
		*ret_over_limit = !e || e->shown.dead;
		*ret = *ret_over_limit ? other(a) : e;
		return 0;
	}
	if (e) {
		identity_free(identity);
		e->shown.dead = false;
		a->dead--;
	} else {
		r = make_entry(a, identity, &e);
		if (r < 0)
			return r;
	}
	a->live++;
	*ret = e;
	return 0;
}

/* ---- the object ---- */

static int make_other(struct aggregate *a)
{
	struct identity *identity = NULL;
	struct entry *e;
	int r = identity_pseudo(IDENTITY_OTHER, &identity);

	if (r == 0)
		r = make_entry(a, identity, &e);
	if (r < 0)
		return r;
	e->bindings = 1; /* id 0, for ever */
	return with_bad(a, e)->bad ? 0 : -ENOMEM;
}

static int make_bindings(struct aggregate *a)
{
	a->bindings = calloc(a->max_ids + 1, sizeof(*a->bindings));
	if (!a->bindings)
		return -ENOMEM;
	for (uint32_t at = 0; at < a->max_ids; at++)
		a->bindings[at].next_free = at + 1 < a->max_ids ? at + 1 : PLACE_NONE;
	a->free_binding = a->max_ids ? 0 : PLACE_NONE;
	return table_new(a->max_ids, &a->by_id);
}

int aggregate_new(const struct aggregate_options *options, struct aggregate **ret)
{
	struct aggregate *a;
	int r;

	if (options->max_cgroups == 0 || options->max_cgroups > PLACE_NONE / 4 || options->max_ids > PLACE_NONE / 4)
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->max_cgroups = options->max_cgroups;
	a->max_ids = options->max_ids;
	a->sinks = options->sinks;
	a->linger_ns = options->linger_ns;
	a->counted_from_unix_ns = options->now_unix_ns;
	r = places_init(&a->places, 1 + 2 * options->max_cgroups, options->interval_ns, options->windows_ns,
			options->n_windows, options->now_ns);
	if (r == 0)
		r = make_bindings(a);
	if (r == 0)
		r = make_other(a);
	if (r < 0) {
		aggregate_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

struct aggregate *aggregate_free(struct aggregate *a)
{
	if (!a)
		return NULL;
	places_done(&a->places);
	table_free(a->by_id);
	free(a->bindings);
	free(a);
	return NULL;
}

/* ---- ids ---- */

static struct binding *find_id(const struct aggregate *a, uint64_t id)
{
	return table_get(a->by_id, id);
}

static struct entry *entry_of_id(const struct aggregate *a, uint64_t id)
{
	const struct binding *b = find_id(a, id);

	return places_at(&a->places, b ? b->entry : OTHER);
}

bool aggregate_knows(const struct aggregate *a, uint64_t id)
{
	return id == 0 || find_id(a, id);
}

static int add_binding(struct aggregate *a, uint64_t id, struct entry *e)
{
	struct binding *b;
	int r;

	if (a->free_binding == PLACE_NONE)
		return -ENOSPC;
	b = &a->bindings[a->free_binding];
	r = table_put(a->by_id, id, b);
	if (r < 0)
		return r;
	a->free_binding = b->next_free;
	*b = (struct binding){.id = id, .entry = places_number(&a->places, e)};
	e->bindings++;
	return 0;
}

int aggregate_bind(struct aggregate *a, uint64_t id, struct identity *identity, bool *ret_over_limit)
{
	struct entry *e = other(a);
	int r;

	*ret_over_limit = false;
	if (aggregate_knows(a, id) || a->free_binding == PLACE_NONE) {
		identity_free(identity);
		return aggregate_knows(a, id) ? -EEXIST : -ENOSPC;
	}
	if (identity) {
		r = find_or_make(a, identity, ret_over_limit, &e);
		if (r < 0)
			return r;
	}
	return add_binding(a, id, e);
}

static void die(struct aggregate *a, struct entry *e, uint64_t now_ns)
{
	e->shown.dead = true;
	e->reported = 0;
	e->death_number = ++a->deaths;
	e->died_ns = now_ns;
	a->live--;
	a->dead++;
}

void aggregate_unbind(struct aggregate *a, uint64_t id, uint64_t now_ns)
{
	struct binding *b = table_remove(a->by_id, id);
	struct entry *e;

	if (!b)
		return;
	e = places_at(&a->places, b->entry);
	b->next_free = a->free_binding;
	a->free_binding = (uint32_t)(b - a->bindings);
	if (--e->bindings == 0)
		die(a, e, now_ns);
}

const struct identity *aggregate_identity(const struct aggregate *a, uint64_t id)
{
	const struct entry *e = entry_of_id(a, id);

	return e == other(a) ? NULL : e->identity;
}

struct visit {
	const struct aggregate *a;
	void (*visit)(uint64_t id, bool folded, void *userdata);
	void *userdata;
};

static void visit_binding(uint64_t id, void *value, void *userdata)
{
	const struct visit *v = userdata;
	const struct binding *b = value;

	v->visit(id, b->entry == OTHER, v->userdata);
}

void aggregate_visit(struct aggregate *a, void (*visit)(uint64_t id, bool folded, void *userdata), void *userdata)
{
	struct visit v = {.a = a, .visit = visit, .userdata = userdata};

	table_visit(a->by_id, visit_binding, &v);
}

/* ---- counting ---- */

static void count(struct entry *e, uint32_t class, uint64_t growth)
{
	e->shown.faults[class] += growth;
	e->pending[class] += growth;
	e->has_pending = true;
}

void aggregate_faults(struct aggregate *a, uint64_t id, const uint64_t growth[FAULT_CLASSES])
{
	struct entry *e = entry_of_id(a, id);

	for (uint32_t c = 0; c < FAULT_CLASSES; c++)
		if (growth[c])
			count(e, c, growth[c]);
}

void aggregate_faults_unclassed(struct aggregate *a, uint64_t id, uint64_t growth)
{
	if (growth)
		count(entry_of_id(a, id), FAULT_CLASS_UNKNOWN, growth);
}

void aggregate_bad(struct aggregate *a, uint64_t id, const struct bad_counts *growth)
{
	struct entry *e = with_bad(a, entry_of_id(a, id));

	add_bad(e->bad, growth);
	for (uint32_t o = 0; o < BAD_OUTCOMES; o++)
		for (uint32_t c = 0; c < BAD_CLASSES; c++)
			e->bad_pending[o] += growth->count[o][c];
	e->has_pending = true;
}

void aggregate_latencies(struct aggregate *a, uint64_t id, const struct bad_latencies *growth)
{
	struct entry *e = with_latencies(a, entry_of_id(a, id));

	/* Without memory they are lost: only a histogram has a hole, no count. */
	if (e->latencies)
		add_latencies(e->latencies, growth);
}

static void count_major(struct entry *e, uint64_t growth)
{
	e->shown.major += growth;
	e->shown.has_major = true;
}

void aggregate_major(struct aggregate *a, const char *path, uint64_t growth)
{
	auto_free char *label = strdup(path);
	struct entry *e = NULL;
	char *slash;

	while (label && !(e = places_find(&a->places, label)) && strcmp(label, "/") != 0) {
		slash = strrchr(label, '/');
		if (!slash)
			break;
		slash[slash == label] = '\0';
	}
	count_major(e ? e : other(a), growth);
}

void aggregate_major_other(struct aggregate *a, uint64_t growth)
{
	count_major(other(a), growth);
}

/* ---- time ---- */

static void close_tick(struct aggregate *a, struct entry *e)
{
	uint64_t sum = 0;

	for (uint32_t c = 0; c < FAULT_CLASSES_ALL; c++) {
		if (e->pending[c])
			window_series_add(a->places.class_window, places_class(&a->places, e, c), e->pending[c]);
		sum += e->pending[c];
		e->pending[c] = 0;
	}
	window_series_add(a->places.windows, places_total(e), sum);
	for (uint32_t o = 0; o < BAD_OUTCOMES; o++) {
		if (e->bad_pending[o])
			window_series_add(a->places.windows, places_bad(&a->places, e, o), e->bad_pending[o]);
		e->bad_pending[o] = 0;
	}
	e->has_pending = false;
}

static bool is_due(const struct aggregate *a, const struct entry *e, uint64_t now_ns)
{
	if (!e->shown.dead)
		return false;
	return (e->reported & a->sinks) == a->sinks || now_ns - e->died_ns >= a->linger_ns;
}

void aggregate_tick(struct aggregate *a, uint64_t now_ns, uint64_t now_unix_ns)
{
	window_clock_tick(a->places.windows, now_ns);
	window_clock_tick(a->places.class_window, now_ns);
	a->counted_from_unix_ns = now_unix_ns;
	for (uint32_t at = 0; at < a->places.used; at++) {
		struct entry *e = places_at(&a->places, at);

		if (!e->identity)
			continue;
		if (e->has_pending)
			close_tick(a, e);
		if (is_due(a, e, now_ns))
			leave(a, e);
	}
}

int aggregate_rewindow(struct aggregate *a, uint64_t interval_ns, const uint64_t *windows_ns, size_t n_windows,
		       uint64_t now_ns)
{
	return places_rewindow(&a->places, interval_ns, windows_ns, n_windows, now_ns);
}

uint64_t aggregate_deaths(const struct aggregate *a)
{
	return a->deaths;
}

void aggregate_reported(struct aggregate *a, uint32_t bit, uint64_t deaths)
{
	for (uint32_t at = 1; a->dead && at < a->places.used; at++) {
		struct entry *e = places_at(&a->places, at);

		if (e->identity && e->shown.dead && e->death_number <= deaths)
			e->reported |= bit;
	}
}

void aggregate_set_sinks(struct aggregate *a, uint32_t sinks)
{
	a->sinks = sinks;
}

/* ---- for sinks ---- */

size_t aggregate_size(const struct aggregate *a)
{
	return a->places.used;
}

const struct cgroup_entry *aggregate_entry(const struct aggregate *a, size_t at)
{
	const struct entry *e = at < a->places.used ? places_at(&a->places, (uint32_t)at) : NULL;

	return e && e->identity ? &e->shown : NULL;
}

bool aggregate_is_shown(const struct aggregate *a, size_t at)
{
	const struct cgroup_entry *e = aggregate_entry(a, at);

	return e && (at == OTHER || e->major > 0 || e->bad || fault_sum(e->faults, FAULT_CLASS_SET_ALL) > 0);
}

size_t aggregate_live(const struct aggregate *a)
{
	return a->live;
}

size_t aggregate_dead(const struct aggregate *a)
{
	return a->dead;
}

uint32_t aggregate_max(const struct aggregate *a)
{
	return a->max_cgroups;
}

uint32_t aggregate_max_ids(const struct aggregate *a)
{
	return a->max_ids;
}

size_t aggregate_windows(const struct aggregate *a)
{
	return window_clock_count(a->places.windows);
}

uint64_t aggregate_window_ns(const struct aggregate *a, size_t w)
{
	return window_clock_length_ns(a->places.windows, w);
}

double aggregate_rate(const struct aggregate *a, size_t at, size_t w)
{
	return window_series_rate(a->places.windows, places_total(places_at(&a->places, (uint32_t)at)), w);
}

double aggregate_bad_rate(const struct aggregate *a, size_t at, enum bad_outcome outcome, size_t w)
{
	return window_series_rate(a->places.windows,
				  places_bad(&a->places, places_at(&a->places, (uint32_t)at), outcome), w);
}

double aggregate_class_rate(const struct aggregate *a, size_t at, fault_class_set set)
{
	double rate = 0;

	for (uint32_t c = 0; c < FAULT_CLASSES_ALL; c++)
		if (set & (1u << c))
			rate += window_series_rate(a->places.class_window,
						   places_class(&a->places, places_at(&a->places, (uint32_t)at), c), 0);
	return rate;
}
