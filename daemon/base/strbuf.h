/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer that remembers failure: append freely, check once at the end with strbuf_error().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
	char *data; /* always NUL-terminated once something was appended; NULL while empty */
	size_t len;
	size_t capacity;
	int error; /* 0, or -ENOMEM once an append failed; later appends do nothing */
};

/* Releases the memory and makes the buffer empty and reusable. */
void strbuf_done(struct strbuf *b);
/* Empties the buffer but keeps its memory for the next round. */
void strbuf_reset(struct strbuf *b);
/* Makes room for `more` bytes in advance. */
void strbuf_reserve(struct strbuf *b, size_t more);
void strbuf_add(struct strbuf *b, const void *bytes, size_t n);
void strbuf_adds(struct strbuf *b, const char *s);
void strbuf_addc(struct strbuf *b, char c);
void strbuf_addf(struct strbuf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Decimal, several times faster than the printf family: scrapes are mostly numbers. */
void strbuf_addu(struct strbuf *b, unsigned long long value);
/* Hands the bytes over (caller frees) and leaves the buffer empty. NULL if an append failed; an empty buffer gives "".
 */
char *strbuf_take(struct strbuf *b);

static inline int strbuf_error(const struct strbuf *b)
{
	return b->error;
}

#define auto_strbuf __attribute__((__cleanup__(strbuf_done))) struct strbuf
