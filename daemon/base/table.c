/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/table.h"

#include <errno.h>
#include <stdlib.h>

/* Chained by index: removal is simple and safe while visiting, unlike open addressing with moved neighbours. */
#define NIL UINT32_MAX

struct node {
	uint64_t id;
	void *value;
	uint32_t next;
};

struct table {
	size_t capacity;
	size_t count;
	uint32_t mask;
	uint32_t free;
	uint32_t *buckets;
	struct node *nodes;
};

static uint32_t bucket_of(const struct table *t, uint64_t id)
{
	/* Fibonacci hashing: kernfs ids count up, the multiplier spreads neighbours over the buckets. */
	return (uint32_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & t->mask;
}

int table_new(size_t capacity, struct table **ret)
{
	uint32_t buckets = 16;
	struct table *t;

	if (capacity >= NIL / 2)
		return -ENOMEM;
	while (buckets < capacity)
		buckets *= 2;

	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->capacity = capacity;
	t->mask = buckets - 1;
	t->buckets = malloc(buckets * sizeof(*t->buckets));
	t->nodes = malloc((capacity + 1) * sizeof(*t->nodes));
	if (!t->buckets || !t->nodes) {
		table_free(t);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < buckets; i++)
		t->buckets[i] = NIL;
	for (uint32_t i = 0; i < capacity; i++)
		t->nodes[i].next = i + 1 < capacity ? i + 1 : NIL;
	t->free = capacity ? 0 : NIL;
	*ret = t;
	return 0;
}

struct table *table_free(struct table *t)
{
	if (t) {
		free(t->buckets);
		free(t->nodes);
		free(t);
	}
	return NULL;
}

/* The link that leads to the id's node, or to the end of its chain. */
static uint32_t *find_link(const struct table *t, uint64_t id)
{
	uint32_t *link = &t->buckets[bucket_of(t, id)];

	while (*link != NIL && t->nodes[*link].id != id)
		link = &t->nodes[*link].next;
	return link;
}

void *table_get(const struct table *t, uint64_t id)
{
	uint32_t at = *find_link(t, id);
	return at == NIL ? NULL : t->nodes[at].value;
}

int table_put(struct table *t, uint64_t id, void *value)
{
	uint32_t *link = find_link(t, id);
	uint32_t at = t->free;

	if (*link != NIL)
		return -EEXIST;
	if (at == NIL)
		return -ENOSPC;
	t->free = t->nodes[at].next;
	t->nodes[at] = (struct node){.id = id, .value = value, .next = NIL};
	*link = at;
	t->count++;
	return 0;
}

void *table_remove(struct table *t, uint64_t id)
{
	uint32_t *link = find_link(t, id);
	uint32_t at = *link;
	void *value;

	if (at == NIL)
		return NULL;
	value = t->nodes[at].value;
	*link = t->nodes[at].next;
	t->nodes[at].next = t->free;
	t->free = at;
	t->count--;
	return value;
}

size_t table_count(const struct table *t)
{
	return t->count;
}

size_t table_capacity(const struct table *t)
{
	return t->capacity;
}

void table_visit(struct table *t, void (*visit)(uint64_t id, void *value, void *userdata), void *userdata)
{
	for (uint32_t b = 0; b <= t->mask; b++)
		for (uint32_t at = t->buckets[b], next; at != NIL; at = next) {
			next = t->nodes[at].next;
			visit(t->nodes[at].id, t->nodes[at].value, userdata);
		}
}
