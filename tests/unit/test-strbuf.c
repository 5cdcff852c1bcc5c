/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/strbuf.h"

static void appends_follow_each_other(void **state)
{
	auto_strbuf b = {0};

	strbuf_adds(&b, "a");
	strbuf_addc(&b, 'b');
	strbuf_add(&b, "cd-", 2);
	strbuf_addf(&b, "%s=%d", "e", -7);
	strbuf_addu(&b, 42);
	assert_int_equal(strbuf_error(&b), 0);
	assert_string_equal(b.data, "abcde=-742");
	assert_int_equal(b.len, strlen(b.data));
}

static void bytes_may_hold_nul(void **state)
{
	auto_strbuf b = {0};

	strbuf_add(&b, "a\0b", 3);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 4);
}

static void numbers_are_printed_as_printf_does(void **state)
{
	static const unsigned long long values[] = {
	    0, 1, 9, 10, 99, 100, 4294967295, 4294967296, UINT64_MAX - 1, UINT64_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		auto_strbuf b = {0};
		char want[32];

		snprintf(want, sizeof(want), "%llu", values[i]);
		strbuf_addu(&b, values[i]);
		assert_string_equal(b.data, want);
	}
}

static void text_longer_than_any_guess_is_formatted_whole(void **state)
{
	auto_strbuf b = {0};

	strbuf_addf(&b, "%0100000d", 1);
	assert_int_equal(b.len, 100000);
	assert_int_equal(b.data[99999], '1');
}

static void a_large_buffer_grows_byte_by_byte(void **state)
{
	auto_strbuf b = {0};

	for (int i = 0; i < 100000; i++)
		strbuf_addc(&b, (char)('a' + i % 26));
	assert_int_equal(b.len, 100000);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(b.data[i], 'a' + i % 26);
	assert_true(b.capacity <= 4 * b.len);
}

static void a_reset_buffer_keeps_its_memory(void **state)
{
	auto_strbuf b = {0};
	size_t capacity;

	strbuf_reserve(&b, 1000);
	capacity = b.capacity;
	assert_true(capacity > 1000);
	strbuf_adds(&b, "text");
	strbuf_reset(&b);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.data, "");
	assert_int_equal(b.capacity, capacity);
}

static void failure_is_remembered_until_reset(void **state)
{
	auto_strbuf b = {0};

	strbuf_adds(&b, "before");
	strbuf_reserve(&b, SIZE_MAX - 3);
	assert_int_equal(strbuf_error(&b), -ENOMEM);
	strbuf_adds(&b, "after");
	strbuf_addu(&b, 1);
	strbuf_addf(&b, "%d", 1);
	assert_string_equal(b.data, "before");
	strbuf_reset(&b);
	strbuf_adds(&b, "again");
	assert_int_equal(strbuf_error(&b), 0);
	assert_string_equal(b.data, "again");
}

static void taking_hands_the_text_over(void **state)
{
	struct strbuf b = {0};
	auto_free char *text = NULL, *empty = NULL;

	empty = strbuf_take(&b);
	assert_string_equal(empty, "");
	strbuf_adds(&b, "text");
	text = strbuf_take(&b);
	assert_string_equal(text, "text");
	assert_null(b.data);
	assert_int_equal(b.len, 0);

	strbuf_adds(&b, "lost");
	strbuf_reserve(&b, SIZE_MAX);
	assert_null(strbuf_take(&b));
	assert_null(b.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(appends_follow_each_other),
	    cmocka_unit_test(bytes_may_hold_nul),
	    cmocka_unit_test(numbers_are_printed_as_printf_does),
	    cmocka_unit_test(text_longer_than_any_guess_is_formatted_whole),
	    cmocka_unit_test(a_large_buffer_grows_byte_by_byte),
	    cmocka_unit_test(a_reset_buffer_keeps_its_memory),
	    cmocka_unit_test(failure_is_remembered_until_reset),
	    cmocka_unit_test(taking_hands_the_text_over),
	};
	return cmocka_run_group_tests_name("strbuf", tests, NULL, NULL);
}
