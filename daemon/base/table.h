/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash table from a 64-bit id to a pointer, sized once: the steady state allocates nothing.
 * Pointers are borrowed; the caller owns what they point to and releases it before table_free().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct table;

/* A table that holds up to `capacity` ids. -ENOMEM on failure, *ret untouched. */
int table_new(size_t capacity, struct table **ret);
/* Accepts NULL, returns NULL. */
struct table *table_free(struct table *t);

/* NULL if the id is not there. */
void *table_get(const struct table *t, uint64_t id);
/* -EEXIST if the id is there, -ENOSPC at capacity. `value` may not be NULL. */
int table_put(struct table *t, uint64_t id, void *value);
/* Returns the value that was there, or NULL. */
void *table_remove(struct table *t, uint64_t id);
size_t table_count(const struct table *t);
size_t table_capacity(const struct table *t);

/* Calls `visit` for each pair in no particular order. The callback may remove the id that it is handed, no other. */
void table_visit(struct table *t, void (*visit)(uint64_t id, void *value, void *userdata), void *userdata);
