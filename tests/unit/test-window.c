/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/model/window.h"

#define SEC UINT64_C(1000000000)

static const uint64_t lengths[] = {2 * SEC, 5 * SEC};

static struct window_clock *clock_at(uint64_t start_ns)
{
	struct window_clock *c = NULL;

	assert_int_equal(window_clock_new(SEC, lengths, 2, start_ns, &c), 0);
	return c;
}

static struct window_series *series_of(const struct window_clock *c)
{
	struct window_series *s = calloc(1, window_series_bytes(c));

	assert_non_null(s);
	return s;
}

static void a_window_holds_its_last_ticks_and_no_more(void **state)
{
	struct window_clock *c = clock_at(100 * SEC);
	struct window_series *s = series_of(c);
	static const uint64_t deltas[] = {10, 20, 40, 80, 160, 320};
	static const uint64_t short_sums[] = {10, 30, 60, 120, 240, 480};
	static const uint64_t long_sums[] = {10, 30, 70, 150, 310, 620};

	for (uint64_t i = 0; i < 6; i++) {
		window_clock_tick(c, (101 + i) * SEC);
		window_series_add(c, s, deltas[i]);
		assert_int_equal(window_series_sum(c, s, 0), short_sums[i]);
		assert_int_equal(window_series_sum(c, s, 1), long_sums[i]);
	}
	assert_true(window_series_rate(c, s, 0) == 240.0);
	assert_true(window_series_rate(c, s, 1) == 124.0);
	free(s);
	window_clock_free(c);
}

static void a_young_daemon_divides_by_the_time_it_has_seen(void **state)
{
	struct window_clock *c = clock_at(0);
	struct window_series *s = series_of(c);

	assert_true(window_series_rate(c, s, 1) == 0);
	window_clock_tick(c, SEC);
	window_series_add(c, s, 100);
	assert_int_equal(window_clock_span_ns(c, 1), SEC);
	assert_true(window_series_rate(c, s, 1) == 100);
	free(s);
	window_clock_free(c);
}

static void a_late_tick_divides_by_the_time_it_took(void **state)
{
	struct window_clock *c = clock_at(0);
	struct window_series *s = series_of(c);

	window_clock_tick(c, SEC);
	window_series_add(c, s, 100);
	window_clock_tick(c, 4 * SEC); /* the loop was away for 3 s */
	window_series_add(c, s, 300);
	assert_int_equal(window_clock_span_ns(c, 0), 4 * SEC);
	assert_true(window_series_rate(c, s, 0) == 100);
	free(s);
	window_clock_free(c);
}

static void a_clock_that_goes_back_takes_no_time(void **state)
{
	struct window_clock *c = clock_at(10 * SEC);
	struct window_series *s = series_of(c);

	window_clock_tick(c, 11 * SEC);
	window_series_add(c, s, 7);
	window_clock_tick(c, 3 * SEC);
	window_series_add(c, s, 7);
	assert_int_equal(window_clock_span_ns(c, 0), SEC);
	assert_true(window_series_rate(c, s, 0) == 14);
	free(s);
	window_clock_free(c);
}

static void a_silent_series_empties_by_itself(void **state)
{
	struct window_clock *c = clock_at(0);
	struct window_series *s = series_of(c);

	window_clock_tick(c, SEC);
	window_series_add(c, s, 50);
	for (uint64_t t = 2; t <= 5; t++)
		window_clock_tick(c, t * SEC);
	assert_int_equal(window_series_sum(c, s, 0), 0);
	assert_int_equal(window_series_sum(c, s, 1), 50);
	window_clock_tick(c, 6 * SEC);
	assert_int_equal(window_series_sum(c, s, 1), 0);
	for (uint64_t t = 7; t < 1000; t++)
		window_clock_tick(c, t * SEC);
	window_series_add(c, s, 3);
	assert_int_equal(window_series_sum(c, s, 1), 3);
	free(s);
	window_clock_free(c);
}

/* Against the definition: the sum of the last n deltas, kept in a plain list. */
static void random_series_equal_the_plain_sum(void **state)
{
	struct window_clock *c = clock_at(0);
	struct window_series *s = series_of(c);
	enum { TICKS = 3000 };
	static uint64_t deltas[TICKS + 1];

	srand(42);
	for (int t = 1; t <= TICKS; t++) {
		window_clock_tick(c, (uint64_t)t * SEC);
		if (rand() % 4 == 0) {
			deltas[t] = (uint64_t)rand();
			window_series_add(c, s, deltas[t]);
		}
		for (size_t w = 0; w < 2; w++) {
			uint64_t sum = 0;

			for (int i = t; i > 0 && i > t - (int)(lengths[w] / SEC); i--)
				sum += deltas[i];
			assert_int_equal(window_series_sum(c, s, w), sum);
		}
	}
	free(s);
	window_clock_free(c);
}

/* Two series merged at any time go on as one that had counted both from the start. */
static void a_merged_series_is_the_sum_of_both(void **state)
{
	srand(4711);
	for (int round = 0; round < 200; round++) {
		struct window_clock *c = clock_at(0);
		struct window_series *a = series_of(c), *b = series_of(c), *both = series_of(c);
		int merge_at = 1 + rand() % 12;

		for (int t = 1; t <= 24; t++) {
			uint64_t x = rand() % 3 ? 0 : (uint64_t)(rand() % 100),
				 y = rand() % 3 ? 0 : (uint64_t)(rand() % 100);

			if (t > merge_at)
				y = 0;
			window_clock_tick(c, (uint64_t)t * SEC);
			if (x)
				window_series_add(c, a, x);
			if (y)
				window_series_add(c, b, y);
			if (x + y)
				window_series_add(c, both, x + y);
			if (t == merge_at)
				window_series_merge(c, a, b);
			for (size_t w = 0; t >= merge_at && w < 2; w++)
				assert_int_equal(window_series_sum(c, a, w), window_series_sum(c, both, w));
		}
		free(a);
		free(b);
		free(both);
		window_clock_free(c);
	}
}

static void counts_beyond_32_bits_saturate(void **state)
{
	struct window_clock *c = clock_at(0);
	struct window_series *s = series_of(c);

	window_clock_tick(c, SEC);
	window_series_add(c, s, UINT64_C(1) << 40);
	assert_int_equal(window_series_sum(c, s, 0), UINT32_MAX);
	free(s);
	window_clock_free(c);
}

static void impossible_windows_are_refused(void **state)
{
	static const uint64_t unordered[] = {5 * SEC, 2 * SEC}, equal[] = {SEC, SEC}, tiny[] = {SEC / 2};
	struct window_clock *c = NULL;

	assert_int_equal(window_clock_new(SEC, unordered, 2, 0, &c), -22);
	assert_int_equal(window_clock_new(SEC, equal, 2, 0, &c), -22);
	assert_int_equal(window_clock_new(SEC, tiny, 1, 0, &c), -22);
	assert_int_equal(window_clock_new(SEC, lengths, 0, 0, &c), -22);
	assert_int_equal(window_clock_new(0, lengths, 2, 0, &c), -22);
	assert_null(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_window_holds_its_last_ticks_and_no_more),
	    cmocka_unit_test(a_young_daemon_divides_by_the_time_it_has_seen),
	    cmocka_unit_test(a_late_tick_divides_by_the_time_it_took),
	    cmocka_unit_test(a_clock_that_goes_back_takes_no_time),
	    cmocka_unit_test(a_silent_series_empties_by_itself),
	    cmocka_unit_test(random_series_equal_the_plain_sum),
	    cmocka_unit_test(a_merged_series_is_the_sum_of_both),
	    cmocka_unit_test(counts_beyond_32_bits_saturate),
	    cmocka_unit_test(impossible_windows_are_refused),
	};

	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
