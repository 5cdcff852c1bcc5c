/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/utf8.h"

static uint64_t read_varint(struct wire *c)
{
	uint64_t value = 0;
	int shift = 0;

	do {
		assert_true(c->at < c->end && shift < 64);
		value |= (uint64_t)(*c->at & 0x7f) << shift;
		shift += 7;
	} while (*c->at++ & 0x80);
	return value;
}

bool wire_next(struct wire *c, struct wire_field *f)
{
	uint64_t tag;

	if (c->at == c->end)
		return false;
	tag = read_varint(c);
	f->number = (uint32_t)(tag >> 3);
	switch (tag & 7) {
	case 0:
		f->value = read_varint(c);
		break;
	case 1:
		assert_true(c->end - c->at >= 8);
		memcpy(&f->value, c->at, 8); /* little endian, as the tests' hosts are */
		c->at += 8;
		break;
	case 2:
		f->value = read_varint(c);
		assert_true(f->value <= (uint64_t)(c->end - c->at));
		f->bytes = (struct wire){c->at, c->at + f->value};
		c->at += f->value;
		break;
	default:
		fail_msg("wire type %d", (int)(tag & 7));
	}
	return true;
}

struct wire wire_part(struct wire c, uint32_t number)
{
	struct wire_field f;

	while (wire_next(&c, &f))
		if (f.number == number)
			return f.bytes;
	return (struct wire){0};
}

void wire_text(struct wire c, char *to, size_t size)
{
	size_t len = (size_t)(c.end - c.at);

	assert_true(len < size);
	assert_true(utf8_valid((const char *)c.at, len));
	memcpy(to, c.at, len);
	to[len] = '\0';
}
