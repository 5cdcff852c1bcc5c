/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/utf8.h"

#define REPLACEMENT UINT32_C(0xfffd)
#define REPLACEMENT_BYTES "\xef\xbf\xbd"

struct sequence {
	size_t len;              /* 0: no character begins with this byte */
	unsigned char low, high; /* range of the second byte */
};

/* The Unicode standard's table of well-formed byte sequences (3-7). The narrowed second bytes keep out overlong forms,
 * surrogates and what lies above U+10FFFF. */
static struct sequence sequence_of(unsigned char lead)
{
	struct sequence s = {.low = 0x80, .high = 0xbf};

	if (lead < 0x80)
		s.len = 1;
	else if (lead >= 0xc2 && lead <= 0xdf)
		s.len = 2;
	else if (lead >= 0xe0 && lead <= 0xef)
		s.len = 3;
	else if (lead >= 0xf0 && lead <= 0xf4)
		s.len = 4;

	if (lead == 0xe0)
		s.low = 0xa0;
	else if (lead == 0xed)
		s.high = 0x9f;
	else if (lead == 0xf0)
		s.low = 0x90;
	else if (lead == 0xf4)
		s.high = 0x8f;
	return s;
}

bool utf8_next(const char *bytes, size_t len, size_t *ret_len, uint32_t *ret_char)
{
	unsigned char lead = (unsigned char)bytes[0];
	struct sequence s = sequence_of(lead);
	/* 7, 5, 4 or 3 bits of the lead byte belong to the code point. */
	uint32_t code = s.len == 1 ? lead : lead & (0x7fu >> s.len);
	size_t n = 1;

	for (; n < s.len && n < len; n++) {
		unsigned char c = (unsigned char)bytes[n];

		if (c < s.low || c > s.high)
			break;
		s.low = 0x80;
		s.high = 0xbf;
		code = code << 6 | (c & 0x3fu);
	}
	*ret_len = n;
	*ret_char = n == s.len ? code : REPLACEMENT;
	return n == s.len;
}

bool utf8_valid(const char *bytes, size_t len)
{
	size_t n;
	uint32_t code;

	for (size_t at = 0; at < len; at += n)
		if (!utf8_next(bytes + at, len - at, &n, &code))
			return false;
	return true;
}

void utf8_append(struct strbuf *out, const char *bytes, size_t len)
{
	size_t good = 0, n; /* [good, at) is well formed and not appended yet */
	uint32_t code;

	for (size_t at = 0; at < len; at += n) {
		if (utf8_next(bytes + at, len - at, &n, &code))
			continue;
		strbuf_add(out, bytes + good, at - good);
		strbuf_adds(out, REPLACEMENT_BYTES);
		good = at + n;
	}
	if (good < len)
		strbuf_add(out, bytes + good, len - good);
}

bool utf8_is_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x180e ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
	       c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) || (c & 0xfffe) == 0xfffe || c >= 0xe0000;
}
