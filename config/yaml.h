/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML text as a tree with positions. Private to config/; the only file behind it sees libyaml.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/strbuf.h"

enum tree_kind { TREE_SCALAR, TREE_SEQUENCE, TREE_MAPPING };

struct tree {
	enum tree_kind kind;
	size_t line, column; /* from 1 */
	char *text;          /* scalars; never NULL for them */
	bool null;           /* a plain scalar that says nothing: empty, ~ or null */
	struct tree **items; /* sequences: values; mappings: key, value, key, value, ... */
	size_t n_items;
};

/* Reads one document. *ret is NULL for an empty one. -EINVAL with a line "name:line:column: what is wrong" in `errors`; -ENOMEM. */
int tree_read(const char *name, const char *text, size_t len, struct strbuf *errors, struct tree **ret);
/* Accepts NULL, returns NULL. */
struct tree *tree_free(struct tree *y);
