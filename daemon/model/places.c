/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct entry *places_at(const struct places *p, uint32_t at)
{
	return (struct entry *)(p->memory + (size_t)at * p->entry_bytes);
}

uint32_t places_number(const struct places *p, const struct entry *e)
{
	return (uint32_t)((size_t)((const char *)e - p->memory) / p->entry_bytes);
}

struct window_series *places_total(struct entry *e)
{
	return (struct window_series *)(e + 1);
}

struct window_series *places_class(const struct places *p, struct entry *e, uint32_t class)
{
	size_t at = (size_t) class * p->capacity + places_number(p, e);

	return (struct window_series *)(p->class_memory + at * p->class_bytes);
}

struct window_series *places_bad(const struct places *p, struct entry *e, enum bad_outcome outcome)
{
	size_t at = (size_t)outcome * p->capacity + places_number(p, e);

	return (struct window_series *)(p->bad_memory + at * window_series_bytes(p->windows));
}

/* ---- labels ---- */

static uint64_t hash_label(const char *label)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *label; label++)
		hash = (hash ^ (unsigned char)*label) * UINT64_C(0x100000001b3);
	return hash;
}

struct entry *places_find(const struct places *p, const char *label)
{
	struct entry *e = table_get(p->by_label, hash_label(label));

	while (e && strcmp(e->identity->label, label) != 0)
		e = e->same_hash;
	return e;
}

static int add_label(struct places *p, struct entry *e)
{
	uint64_t hash = hash_label(e->identity->label);
	struct entry *head = table_get(p->by_label, hash);

	e->same_hash = NULL;
	if (!head)
		return table_put(p->by_label, hash, e);
	e->same_hash = head->same_hash;
	head->same_hash = e;
	return 0;
}

static void remove_label(struct places *p, struct entry *e)
{
	uint64_t hash = hash_label(e->identity->label);
	struct entry *head = table_get(p->by_label, hash);

	if (head == e) {
		table_remove(p->by_label, hash);
		if (e->same_hash)
			(void)table_put(p->by_label, hash, e->same_hash); /* its place was just freed */
		return;
	}
	while (head && head->same_hash != e)
		head = head->same_hash;
	if (head)
		head->same_hash = e->same_hash;
}

/* ---- places ---- */

static struct entry *free_place(struct places *p)
{
	struct entry *e;

	if (p->free == PLACE_NONE)
		return p->used < p->capacity ? places_at(p, p->used++) : NULL;
	e = places_at(p, p->free);
	p->free = e->next_free;
	return e;
}

static void give_back(struct places *p, struct entry *e)
{
	e->identity = NULL;
	e->next_free = p->free;
	p->free = places_number(p, e);
}

int places_take(struct places *p, struct identity *identity, struct entry **ret)
{
	struct entry *e = free_place(p);
	int r;

	if (!e)
		return -ENOSPC;
	memset(e, 0, p->entry_bytes);
	for (uint32_t c = 0; c < FAULT_CLASSES_ALL; c++)
		window_series_reset(p->class_window, places_class(p, e, c));
	for (uint32_t o = 0; o < BAD_OUTCOMES; o++)
		window_series_reset(p->windows, places_bad(p, e, o));
	e->identity = identity;
	e->shown.identity = identity;
	r = add_label(p, e);
	if (r < 0) {
		give_back(p, e);
		return r;
	}
	*ret = e;
	return 0;
}

void places_leave(struct places *p, struct entry *e)
{
	remove_label(p, e);
	identity_free(e->identity);
	free(e->bad);
	free(e->latencies);
	e->bad = NULL;
	e->latencies = NULL;
	give_back(p, e);
}

/* ---- memory ---- */

static int make_clocks(struct places *p, uint64_t interval_ns, const uint64_t *windows_ns, size_t n, uint64_t now_ns)
{
	int r = window_clock_new(interval_ns, windows_ns, n, now_ns, &p->windows);

	return r < 0 ? r : window_clock_new(interval_ns, windows_ns, 1, now_ns, &p->class_window);
}

int places_init(struct places *p, uint32_t capacity, uint64_t interval_ns, const uint64_t *windows_ns, size_t n_windows,
		uint64_t now_ns)
{
	int r;

	*p = (struct places){.capacity = capacity, .free = PLACE_NONE};
	r = make_clocks(p, interval_ns, windows_ns, n_windows, now_ns);
	if (r == 0)
		r = table_new(capacity, &p->by_label);
	if (r == 0) {
		p->class_bytes = window_series_bytes(p->class_window);
		p->entry_bytes = sizeof(struct entry) + window_series_bytes(p->windows);
		/* In one piece: calloc leaves the pages of places never used untouched, so they cost no memory. */
		p->memory = calloc(capacity, p->entry_bytes);
		p->class_memory = calloc((size_t)capacity * FAULT_CLASSES_ALL, p->class_bytes);
		p->bad_memory = calloc((size_t)capacity * BAD_OUTCOMES, window_series_bytes(p->windows));
		r = p->memory && p->class_memory && p->bad_memory ? 0 : -ENOMEM;
	}
	if (r < 0)
		places_done(p);
	return r;
}

static void free_memory(struct places *p)
{
	free(p->memory);
	free(p->class_memory);
	free(p->bad_memory);
	table_free(p->by_label);
	window_clock_free(p->windows);
	window_clock_free(p->class_window);
	*p = (struct places){0};
}

void places_done(struct places *p)
{
	for (uint32_t at = 0; at < p->used; at++) {
		struct entry *e = places_at(p, at);

		identity_free(e->identity);
		free(e->bad);
		free(e->latencies);
	}
	free_memory(p);
}

int places_rewindow(struct places *p, uint64_t interval_ns, const uint64_t *windows_ns, size_t n_windows,
		    uint64_t now_ns)
{
	struct places fresh;
	int r = places_init(&fresh, p->capacity, interval_ns, windows_ns, n_windows, now_ns);

	if (r < 0)
		return r;
	for (uint32_t at = 0; r == 0 && at < p->used; at++) {
		struct entry *e = places_at(&fresh, at);

		*e = *places_at(p, at);
		if (e->identity)
			r = add_label(&fresh, e);
	}
	if (r < 0) {
		free_memory(&fresh);
		return r;
	}
	fresh.used = p->used;
	fresh.free = p->free;
	free_memory(p);
	*p = fresh;
	return 0;
}
