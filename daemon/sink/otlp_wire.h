/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Length-prefixed fields of protobuf's wire format, for stringing packed pieces together: in protobuf the bytes of a
 * message's parts in a row are the bytes of the whole. Field numbers here are below 16, so that a tag is one byte.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/base/strbuf.h"

#define OTLP_WIRE_LENGTH_PREFIXED 2
#define OTLP_FIELD_HEAD_MAX 11 /* a tag and the longest length */

static inline size_t otlp_varint_size(uint64_t value)
{
	size_t n = 1;

	while (value >>= 7)
		n++;
	return n;
}

/* Size of a field that holds a message of `len` bytes. */
static inline size_t otlp_field_size(size_t len)
{
	return 1 + otlp_varint_size(len) + len;
}

/* Writes tag and length; returns where the message's bytes go. */
static inline uint8_t *otlp_put_field_head(uint8_t *at, uint32_t field, uint64_t len)
{
	*at++ = (uint8_t)(field << 3 | OTLP_WIRE_LENGTH_PREFIXED);
	for (; len > 0x7f; len >>= 7)
		*at++ = (uint8_t)(len | 0x80);
	*at++ = (uint8_t)len;
	return at;
}

static inline void otlp_add_field_head(struct strbuf *b, uint32_t field, size_t len)
{
	uint8_t head[OTLP_FIELD_HEAD_MAX];

	strbuf_add(b, head, (size_t)(otlp_put_field_head(head, field, len) - head));
}

static inline uint8_t *otlp_put_bytes(uint8_t *at, const void *data, size_t len)
{
	if (len)
		memcpy(at, data, len);
	return at + len;
}
