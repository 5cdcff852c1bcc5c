/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/strbuf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void strbuf_done(struct strbuf *b)
{
	free(b->data);
	*b = (struct strbuf){0};
}

void strbuf_reset(struct strbuf *b)
{
	b->len = 0;
	b->error = 0;
	if (b->data)
		b->data[0] = '\0';
}

void strbuf_reserve(struct strbuf *b, size_t more)
{
	size_t want, capacity = b->capacity ? b->capacity : 64;
	char *data;

	if (b->error)
		return;
	if (more > SIZE_MAX / 2 - b->len - 1) {
		b->error = -ENOMEM;
		return;
	}
	want = b->len + more + 1;
	if (want <= b->capacity)
		return;
	while (capacity < want)
		capacity *= 2;
	data = realloc(b->data, capacity);
	if (!data) {
		b->error = -ENOMEM;
		return;
	}
	b->data = data;
	b->capacity = capacity;
	b->data[b->len] = '\0';
}

void strbuf_add(struct strbuf *b, const void *bytes, size_t n)
{
	strbuf_reserve(b, n);
	if (b->error || n == 0)
		return;
	memcpy(b->data + b->len, bytes, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void strbuf_adds(struct strbuf *b, const char *s)
{
	strbuf_add(b, s, strlen(s));
}

void strbuf_addc(struct strbuf *b, char c)
{
	strbuf_add(b, &c, 1);
}

void strbuf_addf(struct strbuf *b, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0) {
		b->error = -EINVAL;
		return;
	}
	strbuf_reserve(b, (size_t)n);
	if (b->error)
		return;
	va_start(args, format);
	vsnprintf(b->data + b->len, (size_t)n + 1, format, args);
	va_end(args);
	b->len += (size_t)n;
}

void strbuf_addu(struct strbuf *b, unsigned long long value)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	strbuf_add(b, digits + at, sizeof(digits) - at);
}

char *strbuf_take(struct strbuf *b)
{
	char *data;

	if (!b->error && !b->data)
		strbuf_reserve(b, 0);
	if (b->error) {
		strbuf_done(b);
		return NULL;
	}
	/* What is taken is kept: give back what was only room to grow. */
	data = realloc(b->data, b->len + 1);
	if (!data)
		data = b->data;
	*b = (struct strbuf){0};
	return data;
}
