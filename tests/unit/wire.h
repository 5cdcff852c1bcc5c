/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small reader of protobuf's wire format, so that tests of what we write use nothing of protobuf-c. What is
 * malformed fails the test.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a message, or what is left of them. */
struct wire {
	const uint8_t *at, *end;
};

struct wire_field {
	uint32_t number;
	uint64_t value;    /* of a varint or fixed64 */
	struct wire bytes; /* of a length-prefixed field */
};

/* The next field; false at the end. */
bool wire_next(struct wire *c, struct wire_field *f);
/* The first field `number` of a message; empty if it is not there. */
struct wire wire_part(struct wire c, uint32_t number);
/* A text, which must be UTF-8 and fit. */
void wire_text(struct wire c, char *to, size_t size);
