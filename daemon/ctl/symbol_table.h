/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of addresses: filled, sorted once, then asked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"

struct symbol {
	uint64_t begin, end; /* end == begin: not known */
	uint32_t name;       /* offset in names */
	uint32_t rank;       /* of several at one address the lowest wins, then the first */
};

/* Initialise with {0}. */
struct symbol_table {
	struct symbol *symbols;
	size_t n, capacity;
	struct strbuf names;
	int error;
};

void symbol_table_done(struct symbol_table *t);

/* `size` 0: up to the next symbol. `name` is copied with `len` bytes and a NUL behind them; it may hold NULs.
 * Addresses in 32-bit and 64-bit spaces alike. Fails silently, symbol_table_sort() tells. */
void symbol_table_add(struct symbol_table *t, uint64_t begin, uint64_t size, unsigned rank, const char *name,
		      size_t len);
/* To be called after the last addition and before the first question. 0 or -ENOMEM. */
int symbol_table_sort(struct symbol_table *t);

/* The symbol that holds the address, NULL if there is none; *ret_offset is the address' distance from its begin. */
const char *symbol_table_find(const struct symbol_table *t, uint64_t address, uint64_t *ret_offset);

/* Memory in use. */
size_t symbol_table_bytes(const struct symbol_table *t);
