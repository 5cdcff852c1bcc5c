/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/table.h"

#define OTHER 0
#define NIL UINT32_MAX

struct entry {
	struct cgroup_entry shown; /* first: sinks get a pointer to it */
	struct identity *identity; /* NULL: the place is free */
	struct entry *same_hash;   /* next entry whose label has the same hash */
	uint64_t pending[FAULT_CLASSES_ALL];
	bool has_pending;
	uint32_t bindings;
	uint32_t next_free;
	uint32_t reported;     /* bits of the sinks that have shown it since it died */
	uint64_t death_number; /* orders deaths against snapshots */
	uint64_t died_ns;
	/* Behind the struct: one series of all faults over all windows, then one per class over the shortest window. */
};

struct binding {
	uint64_t id;
	uint32_t entry;
	uint32_t next_free;
};

struct aggregate {
	uint32_t max_cgroups;
	uint32_t capacity; /* places for entries: `other`, the living, and as many dead that wait */
	size_t entry_bytes;
	char *entries;
	uint32_t used; /* places below were used once; those above are still untouched memory */
	uint32_t free_entry;
	uint32_t live, dead;

	uint32_t max_ids;
	struct binding *bindings;
	uint32_t free_binding;
	struct table *by_id;    /* id -> struct binding */
	struct table *by_label; /* hash of label -> struct entry, chained by same_hash */

	struct window_clock *windows;
	struct window_clock *class_window;
	size_t total_bytes, class_bytes; /* of one series */

	uint32_t sinks;
	uint64_t linger_ns;
	uint64_t deaths;
	uint64_t counted_from_unix_ns; /* the last tick: what is bound later has counted since then at the earliest */
};

static struct entry *entry_at(const struct aggregate *a, uint32_t at)
{
	return (struct entry *)(a->entries + (size_t)at * a->entry_bytes);
}

static uint32_t place_of(const struct aggregate *a, const struct entry *e)
{
	return (uint32_t)((size_t)((const char *)e - a->entries) / a->entry_bytes);
}

static struct window_series *total_series(struct entry *e)
{
	return (struct window_series *)(e + 1);
}

static struct window_series *class_series(const struct aggregate *a, struct entry *e, uint32_t class)
{
	return (struct window_series *)((char *)(e + 1) + a->total_bytes + class * a->class_bytes);
}

/* ---- labels ---- */

static uint64_t hash_label(const char *label)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *label; label++)
		hash = (hash ^ (unsigned char)*label) * UINT64_C(0x100000001b3);
	return hash;
}

static struct entry *find_label(const struct aggregate *a, const char *label)
{
	struct entry *e = table_get(a->by_label, hash_label(label));

	while (e && strcmp(e->identity->label, label) != 0)
		e = e->same_hash;
	return e;
}

static int add_label(struct aggregate *a, struct entry *e)
{
	uint64_t hash = hash_label(e->identity->label);
	struct entry *head = table_get(a->by_label, hash);

	e->same_hash = NULL;
	if (!head)
		return table_put(a->by_label, hash, e);
	e->same_hash = head->same_hash;
	head->same_hash = e;
	return 0;
}

static void remove_label(struct aggregate *a, struct entry *e)
{
	uint64_t hash = hash_label(e->identity->label);
	struct entry *head = table_get(a->by_label, hash);

	if (head == e) {
		table_remove(a->by_label, hash);
		if (e->same_hash)
			(void)table_put(a->by_label, hash, e->same_hash); /* its place was just freed */
		return;
	}
	while (head && head->same_hash != e)
		head = head->same_hash;
	if (head)
		head->same_hash = e->same_hash;
}

/* ---- entries ---- */

static void make_shown(struct aggregate *a, struct entry *e, struct identity *identity)
{
	memset(e, 0, a->entry_bytes);
	e->identity = identity;
	e->shown.identity = identity;
	e->shown.start_unix_ns = a->counted_from_unix_ns;
}

/* The totals go on in `other`; the place is free. */
static void leave(struct aggregate *a, struct entry *e)
{
	struct entry *other = entry_at(a, OTHER);

	for (uint32_t class = 0; class < FAULT_CLASSES_ALL; class ++)
		other->shown.faults[class] += e->shown.faults[class];
	other->shown.major += e->shown.major;
	other->shown.has_major |= e->shown.has_major;
	remove_label(a, e);
	e->identity = identity_free(e->identity);
	e->next_free = a->free_entry;
	a->free_entry = place_of(a, e);
	a->dead--;
}

/* Room for one more entry: the dead that died first gives way if it must. */
static struct entry *take_place(struct aggregate *a)
{
	struct entry *oldest = NULL, *e;

	if (a->free_entry == NIL && a->used < a->capacity)
		return entry_at(a, a->used++);
	if (a->free_entry == NIL) {
		for (uint32_t at = 1; at < a->used; at++) {
			e = entry_at(a, at);
			if (e->identity && e->shown.dead && (!oldest || e->death_number < oldest->death_number))
				oldest = e;
		}
		if (!oldest)
			return NULL;
		leave(a, oldest);
	}
	e = entry_at(a, a->free_entry);
	a->free_entry = e->next_free;
	return e;
}

static void give_back(struct aggregate *a, struct entry *e)
{
	e->identity = NULL;
	e->next_free = a->free_entry;
	a->free_entry = place_of(a, e);
}

/* The entry that `identity` belongs to, made or revived if need be; `other` when the living are too many. Takes over
 * identity. */
static int find_or_make(struct aggregate *a, struct identity *identity, bool *ret_over_limit, struct entry **ret)
{
	struct entry *e = find_label(a, identity->label);
	int r;

	if (e && !e->shown.dead) {
		identity_free(identity);
		*ret = e;
		return 0;
	}
	if (a->live >= a->max_cgroups) {
		identity_free(identity);
		*ret_over_limit = true;
		*ret = entry_at(a, OTHER);
		return 0;
	}
	if (e) {
		identity_free(identity);
		e->shown.dead = false;
		e->reported = 0;
		a->dead--;
	} else {
		e = take_place(a);
		if (!e) {
			identity_free(identity);
			return -ENOMEM;
		}
		make_shown(a, e, identity);
		r = add_label(a, e);
		if (r < 0) {
			identity_free(identity);
			give_back(a, e);
			return r;
		}
	}
	a->live++;
	*ret = e;
	return 0;
}

/* ---- memory ---- */

static int make_windows(uint64_t interval_ns, const uint64_t *windows_ns, size_t n, uint64_t now_ns,
			struct window_clock **ret_all, struct window_clock **ret_class)
{
	struct window_clock *all = NULL;
	int r = window_clock_new(interval_ns, windows_ns, n, now_ns, &all);

	if (r < 0)
		return r;
	r = window_clock_new(interval_ns, windows_ns, 1, now_ns, ret_class);
	if (r < 0) {
		window_clock_free(all);
		return r;
	}
	*ret_all = all;
	return 0;
}

/* All places in one piece: calloc leaves the pages of those never used untouched, so they cost no memory. */
static int make_entries(struct aggregate *a)
{
	a->total_bytes = window_series_bytes(a->windows);
	a->class_bytes = window_series_bytes(a->class_window);
	a->entry_bytes = sizeof(struct entry) + a->total_bytes + FAULT_CLASSES_ALL * a->class_bytes;
	a->entries = calloc(a->capacity, a->entry_bytes);
	return a->entries ? 0 : -ENOMEM;
}

static int make_other(struct aggregate *a)
{
	struct identity *identity = NULL;
	int r = identity_pseudo(IDENTITY_OTHER, &identity);

	if (r < 0)
		return r;
	make_shown(a, entry_at(a, OTHER), identity);
	entry_at(a, OTHER)->bindings = 1;
	return add_label(a, entry_at(a, OTHER));
}

int aggregate_new(const struct aggregate_options *options, struct aggregate **ret)
{
	struct aggregate *a;
	int r;

	if (options->max_cgroups == 0 || options->max_cgroups > NIL / 4 || options->max_ids > NIL / 4)
		return -EINVAL;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->max_cgroups = options->max_cgroups;
	a->capacity = 1 + 2 * options->max_cgroups;
	a->max_ids = options->max_ids;
	a->sinks = options->sinks;
	a->linger_ns = options->linger_ns;
	a->counted_from_unix_ns = options->now_unix_ns;
	a->bindings = calloc(a->max_ids + 1, sizeof(*a->bindings));
	r = a->bindings ? 0 : -ENOMEM;
	if (r == 0)
		r = make_windows(options->interval_ns, options->windows_ns, options->n_windows, options->now_ns,
				 &a->windows, &a->class_window);
	if (r == 0)
		r = make_entries(a);
	if (r == 0)
		r = table_new(a->max_ids, &a->by_id);
	if (r == 0)
		r = table_new(a->capacity, &a->by_label);
	if (r == 0)
		r = make_other(a);
	if (r < 0) {
		aggregate_free(a);
		return r;
	}
	a->free_entry = NIL;
	a->used = 1;
	for (uint32_t at = 0; at < a->max_ids; at++)
		a->bindings[at].next_free = at + 1 < a->max_ids ? at + 1 : NIL;
	a->free_binding = a->max_ids ? 0 : NIL;
	*ret = a;
	return 0;
}

static void free_identities(struct aggregate *a)
{
	for (uint32_t at = 0; a->entries && at < a->capacity && at < (a->used ? a->used : 1); at++)
		identity_free(entry_at(a, at)->identity);
}

struct aggregate *aggregate_free(struct aggregate *a)
{
	if (!a)
		return NULL;
	free_identities(a);
	free(a->entries);
	free(a->bindings);
	table_free(a->by_id);
	table_free(a->by_label);
	window_clock_free(a->windows);
	window_clock_free(a->class_window);
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

	return entry_at(a, b ? b->entry : OTHER);
}

bool aggregate_knows(const struct aggregate *a, uint64_t id)
{
	return id == 0 || find_id(a, id);
}

static int add_binding(struct aggregate *a, uint64_t id, struct entry *e)
{
	struct binding *b;
	int r;

	if (a->free_binding == NIL)
		return -ENOSPC;
	b = &a->bindings[a->free_binding];
	r = table_put(a->by_id, id, b);
	if (r < 0)
		return r;
	a->free_binding = b->next_free;
	*b = (struct binding){.id = id, .entry = place_of(a, e)};
	e->bindings++;
	return 0;
}

int aggregate_bind(struct aggregate *a, uint64_t id, struct identity *identity, bool *ret_over_limit)
{
	struct entry *e = entry_at(a, OTHER);
	int r;

	*ret_over_limit = false;
	if (aggregate_knows(a, id) || a->free_binding == NIL) {
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
	e = entry_at(a, b->entry);
	b->next_free = a->free_binding;
	a->free_binding = (uint32_t)(b - a->bindings);
	if (--e->bindings == 0)
		die(a, e, now_ns);
}

const struct identity *aggregate_identity(const struct aggregate *a, uint64_t id)
{
	const struct entry *e = entry_of_id(a, id);

	return e == entry_at(a, OTHER) ? NULL : e->identity;
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

	for (uint32_t class = 0; class < FAULT_CLASSES; class ++)
		if (growth[class])
			count(e, class, growth[class]);
}

void aggregate_faults_unclassed(struct aggregate *a, uint64_t id, uint64_t growth)
{
	if (growth)
		count(entry_of_id(a, id), FAULT_CLASS_UNKNOWN, growth);
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

	while (label && !(e = find_label(a, label)) && strcmp(label, "/") != 0) {
		slash = strrchr(label, '/');
		if (!slash)
			break;
		slash[slash == label] = '\0';
	}
	count_major(e ? e : entry_at(a, OTHER), growth);
}

void aggregate_major_other(struct aggregate *a, uint64_t growth)
{
	count_major(entry_at(a, OTHER), growth);
}

/* ---- time ---- */

static void close_tick(struct aggregate *a, struct entry *e)
{
	uint64_t sum = 0;

	for (uint32_t class = 0; class < FAULT_CLASSES_ALL; class ++) {
		if (e->pending[class])
			window_series_add(a->class_window, class_series(a, e, class), e->pending[class]);
		sum += e->pending[class];
		e->pending[class] = 0;
	}
	window_series_add(a->windows, total_series(e), sum);
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
	window_clock_tick(a->windows, now_ns);
	window_clock_tick(a->class_window, now_ns);
	a->counted_from_unix_ns = now_unix_ns;
	for (uint32_t at = 0; at < a->used; at++) {
		struct entry *e = entry_at(a, at);

		if (!e->identity)
			continue;
		if (e->has_pending)
			close_tick(a, e);
		if (is_due(a, e, now_ns))
			leave(a, e);
	}
}

/* The entries move to places of the new size; windows begin anew, all else goes with them. */
int aggregate_rewindow(struct aggregate *a, uint64_t interval_ns, const uint64_t *windows_ns, size_t n_windows,
		       uint64_t now_ns)
{
	struct aggregate fresh = *a;
	int r;

	fresh.windows = fresh.class_window = NULL;
	fresh.entries = NULL;
	fresh.by_label = NULL;
	r = make_windows(interval_ns, windows_ns, n_windows, now_ns, &fresh.windows, &fresh.class_window);
	if (r == 0)
		r = make_entries(&fresh);
	if (r == 0)
		r = table_new(a->capacity, &fresh.by_label);
	for (uint32_t at = 0; r == 0 && at < a->used; at++) {
		struct entry *e = entry_at(&fresh, at);

		*e = *entry_at(a, at);
		if (e->identity)
			r = add_label(&fresh, e);
	}
	if (r == 0) {
		struct aggregate old = *a;
		*a = fresh;
		fresh = old;
	}
	free(fresh.entries);
	table_free(fresh.by_label);
	window_clock_free(fresh.windows);
	window_clock_free(fresh.class_window);
	return r;
}

uint64_t aggregate_deaths(const struct aggregate *a)
{
	return a->deaths;
}

void aggregate_reported(struct aggregate *a, uint32_t bit, uint64_t deaths)
{
	for (uint32_t at = 1; a->dead && at < a->used; at++) {
		struct entry *e = entry_at(a, at);

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
	return a->used;
}

const struct cgroup_entry *aggregate_entry(const struct aggregate *a, size_t at)
{
	const struct entry *e = at < a->used ? entry_at(a, (uint32_t)at) : NULL;

	return e && e->identity ? &e->shown : NULL;
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

size_t aggregate_windows(const struct aggregate *a)
{
	return window_clock_count(a->windows);
}

uint64_t aggregate_window_ns(const struct aggregate *a, size_t w)
{
	return window_clock_length_ns(a->windows, w);
}

double aggregate_rate(const struct aggregate *a, size_t at, size_t w)
{
	return window_series_rate(a->windows, total_series(entry_at(a, (uint32_t)at)), w);
}

double aggregate_class_rate(const struct aggregate *a, size_t at, fault_class_set set)
{
	double rate = 0;

	for (uint32_t class = 0; class < FAULT_CLASSES_ALL; class ++)
		if (set & (1u << class))
			rate +=
			    window_series_rate(a->class_window, class_series(a, entry_at(a, (uint32_t)at), class), 0);
	return rate;
}
