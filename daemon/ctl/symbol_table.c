/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/symbol_table.h"

#include <errno.h>
#include <stdlib.h>

/* A symbol without a size ends here at the latest: beyond its section there may be no other. */
#define SIZE_MAX_GUESSED (UINT64_C(1) << 20)
/* Symbols may lie within one another: how many to look at before the last one that begins at or below an address. */
#define NESTED_MAX 16

void symbol_table_done(struct symbol_table *t)
{
	free(t->symbols);
	strbuf_done(&t->names);
	*t = (struct symbol_table){0};
}

static int grow(struct symbol_table *t)
{
	size_t capacity = t->capacity ? t->capacity * 2 : 256;
	struct symbol *symbols = reallocarray(t->symbols, capacity, sizeof(*symbols));

	if (!symbols)
		return -ENOMEM;
	t->symbols = symbols;
	t->capacity = capacity;
	return 0;
}

void symbol_table_add(struct symbol_table *t, uint64_t begin, uint64_t size, unsigned rank, const char *name,
		      size_t len)
{
	struct symbol s = {.begin = begin, .end = begin + size, .name = (uint32_t)t->names.len, .rank = rank};

	if (s.end < begin)
		s.end = UINT64_MAX;
	if (t->error == 0 && t->n == t->capacity)
		t->error = grow(t);
	/* Offsets of names have 32 bits. */
	if (t->error == 0 && len >= UINT32_MAX - t->names.len)
		t->error = -ENOMEM;
	if (t->error < 0)
		return;
	strbuf_add(&t->names, name, len);
	strbuf_addc(&t->names, '\0');
	t->symbols[t->n++] = s;
}

static int compare(const void *one, const void *other)
{
	const struct symbol *a = one, *b = other;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

/* Of those at one address the best stays; it gets the size of another if it has none. */
static void drop_aliases(struct symbol_table *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct symbol *last = kept ? &t->symbols[kept - 1] : NULL;

		if (!last || last->begin != t->symbols[i].begin)
			t->symbols[kept++] = t->symbols[i];
		else if (last->end == last->begin)
			last->end = t->symbols[i].end;
	}
	t->n = kept;
}

static void guess_ends(struct symbol_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct symbol *s = &t->symbols[i];

		if (s->end != s->begin)
			continue;
		s->end = s->begin + SIZE_MAX_GUESSED < s->begin ? UINT64_MAX : s->begin + SIZE_MAX_GUESSED;
		if (i + 1 < t->n && t->symbols[i + 1].begin < s->end)
			s->end = t->symbols[i + 1].begin;
	}
}

int symbol_table_sort(struct symbol_table *t)
{
	if (t->error == 0)
		t->error = strbuf_error(&t->names);
	if (t->error < 0 || t->n == 0)
		return t->error;
	qsort(t->symbols, t->n, sizeof(*t->symbols), compare);
	drop_aliases(t);
	guess_ends(t);
	return 0;
}

/* The number of symbols that begin at or below the address. */
static size_t count_below(const struct symbol_table *t, uint64_t address)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->symbols[middle].begin <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const char *symbol_table_find(const struct symbol_table *t, uint64_t address, uint64_t *ret_offset)
{
	size_t at = count_below(t, address);

	for (size_t i = 0; i < NESTED_MAX && at-- > 0; i++) {
		const struct symbol *s = &t->symbols[at];

		if (address < s->end) {
			*ret_offset = address - s->begin;
			return t->names.data + s->name;
		}
	}
	return NULL;
}

size_t symbol_table_bytes(const struct symbol_table *t)
{
	return t->capacity * sizeof(*t->symbols) + t->names.capacity;
}
