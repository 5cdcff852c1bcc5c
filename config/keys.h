/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key table: every key once, with type, range, default and explanation. Parsing, checks, printing, the default file and
 * the reference all come from it. Private to config/.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "daemon/base/strbuf.h"

enum key_type {
	KEY_DURATION,  /* uint64_t ns */
	KEY_DURATIONS, /* the windows */
	KEY_SIZE,      /* uint64_t bytes */
	KEY_UINT,      /* uint32_t */
	KEY_CHOICE,    /* int: an enum */
	KEY_SET,       /* uint32_t: bits, the values of the choices */
	KEY_TEXT,      /* char * */
	KEY_TEXTS,     /* struct config_list */
	KEY_HEADERS,   /* ship.headers, ship.n_headers */
};

struct choice {
	const char *name;
	int value;
};

struct key {
	const char *path;
	enum key_type type;
	size_t offset; /* in struct config */
	uint64_t min, max;
	const struct choice *choices; /* ends with a NULL name */
	/* NULL, or what is wrong with a text (an item of a list); static text that says what is allowed. */
	const char *(*check)(const char *text);
	const char *def; /* as YAML */
	bool secret;     /* errors do not quote it: it may hold a password by mistake */
	const char *help;
};

extern const struct key keys[];
extern const size_t n_keys;

/* NULL if there is none. */
const struct key *key_find(const char *path);
/* True if keys lie below "path.". */
bool key_is_section(const char *path);
/* The key or section most like `path`, NULL if none is near. */
const char *key_near(const char *path);

/* One scalar of the key's type (for a list: one item). 0, or -EINVAL with what is wrong and what is allowed in `problem`;
 * -ENOMEM. */
int key_set(struct config *c, const struct key *key, const char *text, struct strbuf *problem);
/* Empties a list key before its items are set. */
void key_clear(struct config *c, const struct key *key);
int key_add_header(struct config *c, const char *name, const char *value, struct strbuf *problem);
/* The value as YAML in flow style. */
void key_print(const struct config *c, const struct key *key, bool secrets, struct strbuf *out);
/* "100ms to 10s" and the like; nothing for texts. */
void key_print_range(const struct key *key, struct strbuf *out);

void print_duration(uint64_t ns, struct strbuf *out);
/* The text without what steers a terminal, not in quotes: for names of files. */
void print_safe(const char *text, struct strbuf *out);
/* The text as a double-quoted YAML scalar, safe on a terminal; cut after 80 bytes if `cut`. */
void print_quoted(const char *text, bool cut, struct strbuf *out);
