/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 against the Unicode standard, chapter 3.9: its table 3-7 of well-formed sequences and its examples of the
 * replacement of maximal subparts (tables 3-8 to 3-11).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/utf8.h"

#define R "\xef\xbf\xbd"

static void check(const char *bytes, size_t len, const char *want)
{
	auto_strbuf out = {0};
	/* A copy without a byte to spare lets the sanitizer see reads behind the end. */
	auto_free char *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	strbuf_adds(&out, "");
	utf8_append(&out, copy, len);
	assert_int_equal(strbuf_error(&out), 0);
	assert_string_equal(out.data, want);
	assert_int_equal(utf8_valid(copy, len), strlen(want) == len && memcmp(bytes, want, len) == 0);
	assert_true(utf8_valid(out.data, out.len));
}

#define CHECK(bytes, want) check(bytes, sizeof(bytes) - 1, want)

static void well_formed_text_stays_as_it_is(void **state)
{
	CHECK("", "");
	CHECK("/system.slice/sshd.service", "/system.slice/sshd.service");
	CHECK("\x7f\x01\n\t", "\x7f\x01\n\t");
	CHECK("\xc2\x80\xdf\xbf", "\xc2\x80\xdf\xbf");
	CHECK("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf");
	CHECK("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
	CHECK("caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x90\xa7", "caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x90\xa7");
}

static void each_maximal_ill_formed_part_becomes_one_replacement(void **state)
{
	/* Table 3-8: overlong forms. */
	CHECK("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A");
	/* Table 3-9: surrogates. */
	CHECK("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A");
	/* Table 3-10: out of range and others. */
	CHECK("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B");
	/* Table 3-11: truncated sequences. */
	CHECK("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A");
}

static void cut_off_ends_become_one_replacement(void **state)
{
	CHECK("a\xc3", "a" R);
	CHECK("a\xe2\x82", "a" R);
	CHECK("a\xf0\x9f\x90", "a" R);
	CHECK("a\xf5", "a" R);
	CHECK("\xe2\x82\xe2\x82\xac", R "\xe2\x82\xac");
}

/* The table speaks of bytes, this of code points: also of those that must not be written. */
static void encode(uint32_t c, char out[5])
{
	memset(out, 0, 5);
	if (c < 0x80) {
		out[0] = (char)c;
	} else if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
	} else {
		out[0] = (char)(0xf0 | c >> 18);
		out[1] = (char)(0x80 | (c >> 12 & 0x3f));
		out[2] = (char)(0x80 | (c >> 6 & 0x3f));
		out[3] = (char)(0x80 | (c & 0x3f));
	}
}

static void every_code_point_is_read_as_itself_but_surrogates_and_what_is_above(void **state)
{
	for (uint32_t c = 1; c < 0x1fffff; c++) {
		bool want = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
		char text[5];
		uint32_t code;
		size_t n;

		encode(c, text);
		if (utf8_valid(text, strlen(text)) != want)
			fail_msg("U+%04X", c);
		if (want && (!utf8_next(text, strlen(text), &n, &code) || code != c || n != strlen(text)))
			fail_msg("U+%04X is read as U+%04X", c, code);
	}
}

static void a_nul_byte_is_a_character(void **state)
{
	assert_true(utf8_valid("a\0b", 3));
}

static void garbage_always_becomes_valid_text(void **state)
{
	srand(1);
	for (int i = 0; i < 20000; i++) {
		char bytes[12];
		auto_strbuf out = {0};
		size_t len = (size_t)rand() % sizeof(bytes);

		for (size_t k = 0; k < len; k++)
			bytes[k] = (char)(rand() % 2 ? rand() : 0x80 | rand());
		utf8_append(&out, bytes, len);
		assert_true(utf8_valid(out.data, out.len));
		assert_true(out.len <= 3 * len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(well_formed_text_stays_as_it_is),
	    cmocka_unit_test(each_maximal_ill_formed_part_becomes_one_replacement),
	    cmocka_unit_test(cut_off_ends_become_one_replacement),
	    cmocka_unit_test(every_code_point_is_read_as_itself_but_surrogates_and_what_is_above),
	    cmocka_unit_test(a_nul_byte_is_a_character),
	    cmocka_unit_test(garbage_always_becomes_valid_text),
	};
	return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
