/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/model/aggregate.h"

#define SEC UINT64_C(1000000000)
#define WRITE FAULT_CLASS(FAULT_USER, FAULT_WRITE, FAULT_MISSING)

static const uint64_t windows[] = {2 * SEC, 10 * SEC};

static struct aggregate *make(uint32_t max, uint32_t sinks)
{
	struct aggregate_options options = {
	    .max_cgroups = max,
	    .max_ids = max * 4,
	    .interval_ns = SEC,
	    .windows_ns = windows,
	    .n_windows = 2,
	    .sinks = sinks,
	    .linger_ns = 60 * SEC,
	    .now_unix_ns = 1000 * SEC,
	};
	struct aggregate *a = NULL;

	assert_int_equal(aggregate_new(&options, &a), 0);
	return a;
}

static bool bind(struct aggregate *a, uint64_t id, const char *path)
{
	struct identity *identity = NULL;
	bool over_limit;

	assert_int_equal(identity_parse(path, strlen(path), &identity), 0);
	assert_int_equal(aggregate_bind(a, id, identity, &over_limit), 0);
	return !over_limit;
}

static void add(struct aggregate *a, uint64_t id, uint64_t n)
{
	uint64_t growth[FAULT_CLASSES] = {[WRITE] = n};

	aggregate_faults(a, id, growth);
}

static const struct cgroup_entry *find(const struct aggregate *a, const char *label)
{
	for (size_t at = 0; at < aggregate_size(a); at++) {
		const struct cgroup_entry *e = aggregate_entry(a, at);

		if (e && strcmp(e->identity->label, label) == 0)
			return e;
	}
	return NULL;
}

static uint64_t total_of(const struct aggregate *a, const char *label)
{
	const struct cgroup_entry *e = find(a, label);

	return e ? fault_sum(e->faults, FAULT_CLASS_SET_ALL) : 0;
}

static uint64_t sum_of_all(const struct aggregate *a)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < aggregate_size(a); at++)
		if (aggregate_entry(a, at))
			sum += fault_sum(aggregate_entry(a, at)->faults, FAULT_CLASS_SET_ALL);
	return sum;
}

static void counts_go_to_the_series_of_their_path(void **state)
{
	struct aggregate *a = make(4, 0);

	assert_true(bind(a, 7, "/a.service"));
	add(a, 7, 16);
	add(a, 7, 4);
	aggregate_faults_unclassed(a, 7, 5);
	assert_int_equal(find(a, "/a.service")->faults[WRITE], 20);
	assert_int_equal(find(a, "/a.service")->faults[FAULT_CLASS_UNKNOWN], 5);
	assert_int_equal(aggregate_live(a), 1);
	aggregate_free(a);
}

static void ids_that_nobody_bound_count_as_other(void **state)
{
	struct aggregate *a = make(4, 0);

	add(a, 0, 3);
	add(a, 99, 4);
	assert_int_equal(total_of(a, "other"), 7);
	aggregate_free(a);
}

static void a_dead_cgroup_is_reported_once_more_by_each_sink_and_leaves(void **state)
{
	struct aggregate *a = make(4, AGGREGATE_SINK_SCRAPE | AGGREGATE_SINK_SHIP);

	bind(a, 7, "/a");
	add(a, 7, 16);
	aggregate_tick(a, SEC, 1001 * SEC);
	aggregate_reported(a, AGGREGATE_SINK_SCRAPE, aggregate_deaths(a)); /* alive: does not count */
	aggregate_unbind(a, 7, SEC);
	aggregate_tick(a, 2 * SEC, 1002 * SEC);
	assert_true(find(a, "/a")->dead);
	aggregate_reported(a, AGGREGATE_SINK_SCRAPE, aggregate_deaths(a));
	aggregate_tick(a, 3 * SEC, 1003 * SEC);
	assert_non_null(find(a, "/a"));
	aggregate_reported(a, AGGREGATE_SINK_SHIP, aggregate_deaths(a));
	aggregate_tick(a, 4 * SEC, 1004 * SEC);
	assert_null(find(a, "/a"));
	assert_int_equal(total_of(a, "other"), 16);
	assert_int_equal(aggregate_dead(a), 0);
	aggregate_free(a);
}

static void a_report_made_before_the_death_does_not_let_it_leave(void **state)
{
	struct aggregate *a = make(4, AGGREGATE_SINK_SCRAPE);
	uint64_t rendered;

	bind(a, 7, "/a");
	rendered = aggregate_deaths(a);
	aggregate_unbind(a, 7, SEC); /* while the answer is on its way */
	aggregate_reported(a, AGGREGATE_SINK_SCRAPE, rendered);
	aggregate_tick(a, 2 * SEC, 1002 * SEC);
	assert_non_null(find(a, "/a"));
	aggregate_free(a);
}

static void a_dead_cgroup_that_nobody_reads_leaves_after_the_linger(void **state)
{
	struct aggregate *a = make(4, AGGREGATE_SINK_SCRAPE);

	bind(a, 7, "/a");
	add(a, 7, 16);
	aggregate_unbind(a, 7, SEC);
	aggregate_tick(a, 60 * SEC, 1060 * SEC);
	assert_non_null(find(a, "/a"));
	aggregate_tick(a, 61 * SEC, 1061 * SEC);
	assert_null(find(a, "/a"));
	assert_int_equal(total_of(a, "other"), 16);
	aggregate_free(a);
}

static void a_recreated_cgroup_goes_on_in_its_series(void **state)
{
	struct aggregate *a = make(4, AGGREGATE_SINK_SCRAPE);
	uint64_t start;

	bind(a, 7, "/a");
	add(a, 7, 16);
	start = find(a, "/a")->start_unix_ns;
	aggregate_unbind(a, 7, SEC);
	aggregate_tick(a, 2 * SEC, 1002 * SEC);
	bind(a, 8, "/a");
	add(a, 8, 4);
	assert_int_equal(total_of(a, "/a"), 20);
	assert_false(find(a, "/a")->dead);
	assert_int_equal(find(a, "/a")->start_unix_ns, start);
	assert_int_equal(aggregate_live(a), 1);
	aggregate_free(a);
}

static void two_ids_of_one_label_share_a_series_until_both_are_gone(void **state)
{
	struct aggregate *a = make(4, 0);

	bind(a, 7, "/a\xff"); /* different paths, the same label */
	bind(a, 8, "/a\xfe");
	add(a, 7, 1);
	add(a, 8, 2);
	assert_int_equal(aggregate_live(a), 1);
	aggregate_unbind(a, 7, SEC);
	assert_int_equal(aggregate_dead(a), 0);
	add(a, 8, 4);
	assert_int_equal(total_of(a, "/a\xef\xbf\xbd"), 7);
	aggregate_unbind(a, 8, SEC);
	assert_int_equal(aggregate_dead(a), 1);
	aggregate_free(a);
}

static void cgroups_beyond_the_limit_fold_into_other(void **state)
{
	struct aggregate *a = make(2, 0);

	assert_true(bind(a, 1, "/1"));
	assert_true(bind(a, 2, "/2"));
	assert_false(bind(a, 3, "/3"));
	add(a, 3, 5);
	assert_null(find(a, "/3"));
	assert_int_equal(total_of(a, "other"), 5);
	assert_int_equal(aggregate_live(a), 2);
	assert_true(aggregate_knows(a, 3));
	aggregate_unbind(a, 3, SEC);
	assert_int_equal(aggregate_dead(a), 0);
	aggregate_free(a);
}

static void the_oldest_dead_gives_way_when_places_run_out(void **state)
{
	struct aggregate *a = make(2, AGGREGATE_SINK_SCRAPE);
	char path[16];

	for (uint64_t id = 1; id <= 20; id++) {
		snprintf(path, sizeof(path), "/%d", (int)id);
		assert_true(bind(a, id, path));
		add(a, id, id);
		aggregate_unbind(a, id, id * SEC);
	}
	assert_non_null(find(a, "/20"));
	assert_null(find(a, "/1"));
	assert_int_equal(sum_of_all(a), 210);
	aggregate_free(a);
}

static void majors_without_a_series_go_to_the_nearest_ancestor(void **state)
{
	struct aggregate *a = make(4, 0);

	bind(a, 1, "/");
	bind(a, 7, "/a.slice");
	aggregate_major(a, "/a.slice/b.service/c", 3);
	aggregate_major(a, "/zzz", 5);
	aggregate_major_other(a, 7);
	assert_int_equal(find(a, "/a.slice")->major, 3);
	assert_int_equal(find(a, "/")->major, 5);
	assert_int_equal(find(a, "other")->major, 7);
	aggregate_free(a);
}

static void rates_come_from_ticks(void **state)
{
	struct aggregate *a = make(4, 0);
	size_t at;

	bind(a, 7, "/a");
	add(a, 7, 10);
	for (at = 0; aggregate_entry(a, at) != find(a, "/a"); at++)
		;
	assert_true(aggregate_rate(a, at, 0) == 0);
	aggregate_tick(a, SEC, 1001 * SEC);
	assert_true(aggregate_rate(a, at, 0) == 10);
	add(a, 7, 30);
	aggregate_tick(a, 2 * SEC, 1002 * SEC);
	assert_true(aggregate_rate(a, at, 0) == 20);
	assert_true(aggregate_class_rate(a, at, 1u << WRITE) == 20);
	assert_true(aggregate_class_rate(a, at, ~(1u << WRITE)) == 0);
	aggregate_tick(a, 3 * SEC, 1003 * SEC);
	aggregate_tick(a, 4 * SEC, 1004 * SEC);
	assert_true(aggregate_rate(a, at, 0) == 0);
	assert_true(aggregate_rate(a, at, 1) == 10);
	aggregate_free(a);
}

static void rates_of_what_leaves_go_on_in_other(void **state)
{
	struct aggregate *a = make(4, 0);

	bind(a, 7, "/a");
	add(a, 7, 40);
	aggregate_tick(a, SEC, 1001 * SEC);
	aggregate_unbind(a, 7, SEC);
	aggregate_tick(a, 2 * SEC, 1002 * SEC);
	assert_null(find(a, "/a"));
	assert_true(aggregate_rate(a, 0, 0) == 20);
	assert_true(aggregate_class_rate(a, 0, 1u << WRITE) == 20);
	aggregate_tick(a, 3 * SEC, 1003 * SEC);
	assert_true(aggregate_rate(a, 0, 0) == 0);
	assert_true(aggregate_rate(a, 0, 1) > 13);
	aggregate_free(a);
}

/* ---- bad accesses ---- */

enum { ACCERR = BAD_BASE_SEGV + 2 };

static void add_bad(struct aggregate *a, uint64_t id, enum bad_outcome outcome, uint64_t n)
{
	struct bad_counts growth = {0};

	growth.count[outcome][ACCERR] = n;
	aggregate_bad(a, id, &growth);
}

static uint64_t bad_of(const struct aggregate *a, const char *label, enum bad_outcome outcome)
{
	const struct cgroup_entry *e = find(a, label);

	return e && e->bad ? e->bad->count[outcome][ACCERR] : 0;
}

static size_t place_of(const struct aggregate *a, const char *label)
{
	size_t at = 0;

	while (aggregate_entry(a, at) != find(a, label))
		at++;
	return at;
}

static void bad_accesses_count_for_their_series_and_go_on_in_other(void **state)
{
	struct aggregate *a = make(4, AGGREGATE_SINK_SCRAPE);
	struct bad_latencies slow = {.bucket = {[3] = 2}, .sum_ns = 7};

	bind(a, 1, "/a");
	add_bad(a, 1, BAD_FATAL, 3);
	add_bad(a, 1, BAD_HANDLED, 5);
	add_bad(a, 99, BAD_FATAL, 1); /* nobody bound it */
	aggregate_latencies(a, 1, &slow);
	assert_true(aggregate_is_shown(a, place_of(a, "/a")));
	aggregate_tick(a, 1 * SEC, 0);
	assert_int_equal(bad_of(a, "/a", BAD_FATAL), 3);
	assert_int_equal(bad_of(a, "/a", BAD_HANDLED), 5);
	assert_int_equal(bad_of(a, "other", BAD_FATAL), 1);
	assert_true(aggregate_bad_rate(a, place_of(a, "/a"), BAD_HANDLED, 0) == 5);
	assert_true(aggregate_bad_rate(a, place_of(a, "/a"), BAD_FATAL, 1) == 3);

	aggregate_unbind(a, 1, 1 * SEC);
	aggregate_reported(a, AGGREGATE_SINK_SCRAPE, aggregate_deaths(a));
	aggregate_tick(a, 2 * SEC, 0);
	assert_null(find(a, "/a"));
	assert_int_equal(bad_of(a, "other", BAD_FATAL), 4);
	assert_int_equal(bad_of(a, "other", BAD_HANDLED), 5);
	assert_int_equal(find(a, "other")->latencies->bucket[3], 2);
	assert_int_equal(find(a, "other")->latencies->sum_ns, 7);
	assert_true(aggregate_bad_rate(a, 0, BAD_FATAL, 0) == 2);
	assert_true(aggregate_bad_rate(a, 0, BAD_HANDLED, 0) == 2.5);

	bind(a, 2, "/a"); /* at the same place: nothing of the old one is left */
	assert_null(find(a, "/a")->bad);
	assert_null(find(a, "/a")->latencies);
	assert_true(aggregate_bad_rate(a, place_of(a, "/a"), BAD_FATAL, 1) == 0);
	aggregate_free(a);
}

static void new_windows_keep_bad_accesses(void **state)
{
	struct aggregate *a = make(4, AGGREGATE_SINK_SCRAPE);

	bind(a, 1, "/a");
	add_bad(a, 1, BAD_FATAL, 3);
	aggregate_tick(a, 1 * SEC, 0);
	assert_int_equal(aggregate_rewindow(a, SEC, (const uint64_t[]){5 * SEC}, 1, 1 * SEC), 0);
	assert_int_equal(bad_of(a, "/a", BAD_FATAL), 3);
	assert_true(aggregate_bad_rate(a, place_of(a, "/a"), BAD_FATAL, 0) == 0);
	add_bad(a, 1, BAD_FATAL, 2);
	aggregate_tick(a, 2 * SEC, 0);
	assert_int_equal(bad_of(a, "/a", BAD_FATAL), 5);
	assert_true(aggregate_bad_rate(a, place_of(a, "/a"), BAD_FATAL, 0) == 2);
	aggregate_free(a);
}

static void new_windows_keep_totals_and_bindings(void **state)
{
	static const uint64_t other_windows[] = {4 * SEC, 8 * SEC, 300 * SEC};
	struct aggregate *a = make(4, 0);

	bind(a, 7, "/a");
	add(a, 7, 10);
	aggregate_tick(a, SEC, 1001 * SEC);
	assert_int_equal(aggregate_rewindow(a, SEC, other_windows, 3, SEC), 0);
	assert_int_equal(aggregate_windows(a), 3);
	add(a, 7, 5);
	assert_int_equal(total_of(a, "/a"), 15);
	bind(a, 8, "/a");
	assert_int_equal(aggregate_live(a), 1);
	assert_int_equal(aggregate_rewindow(a, SEC, other_windows, 0, SEC), -22);
	assert_int_equal(aggregate_windows(a), 3);
	aggregate_free(a);
}

static void a_series_starts_no_later_than_its_first_count(void **state)
{
	struct aggregate *a = make(4, 0);

	aggregate_tick(a, SEC, 1001 * SEC);
	bind(a, 7, "/a"); /* first seen at 1001.7, may have counted since 1001 */
	assert_int_equal(find(a, "/a")->start_unix_ns, 1001 * SEC);
	aggregate_free(a);
}

/* Whatever happens, nothing is lost, counted twice or taken back. */
static void the_sum_over_all_series_never_goes_back(void **state)
{
	struct aggregate *a = make(5, AGGREGATE_SINK_SCRAPE);
	uint64_t counted = 0, now = 0;
	char path[16];

	srand(7);
	for (int step = 0; step < 20000; step++) {
		uint64_t id = 1 + (uint64_t)rand() % 12;

		switch (rand() % 6) {
		case 0:
			if (!aggregate_knows(a, id)) {
				snprintf(path, sizeof(path), "/%d", rand() % 8);
				bind(a, id, path);
			}
			break;
		case 1:
			aggregate_unbind(a, id, now);
			break;
		case 2:
		case 3:
			add(a, id, id * 3);
			counted += id * 3;
			break;
		case 4:
			now += SEC;
			aggregate_tick(a, now, now);
			break;
		case 5:
			aggregate_reported(a, AGGREGATE_SINK_SCRAPE, aggregate_deaths(a));
			break;
		}
		assert_int_equal(sum_of_all(a), counted);
		assert_true(aggregate_live(a) <= 5);
	}
	aggregate_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(counts_go_to_the_series_of_their_path),
	    cmocka_unit_test(ids_that_nobody_bound_count_as_other),
	    cmocka_unit_test(a_dead_cgroup_is_reported_once_more_by_each_sink_and_leaves),
	    cmocka_unit_test(a_report_made_before_the_death_does_not_let_it_leave),
	    cmocka_unit_test(a_dead_cgroup_that_nobody_reads_leaves_after_the_linger),
	    cmocka_unit_test(a_recreated_cgroup_goes_on_in_its_series),
	    cmocka_unit_test(two_ids_of_one_label_share_a_series_until_both_are_gone),
	    cmocka_unit_test(cgroups_beyond_the_limit_fold_into_other),
	    cmocka_unit_test(the_oldest_dead_gives_way_when_places_run_out),
	    cmocka_unit_test(majors_without_a_series_go_to_the_nearest_ancestor),
	    cmocka_unit_test(rates_come_from_ticks),
	    cmocka_unit_test(rates_of_what_leaves_go_on_in_other),
	    cmocka_unit_test(new_windows_keep_totals_and_bindings),
	    cmocka_unit_test(bad_accesses_count_for_their_series_and_go_on_in_other),
	    cmocka_unit_test(new_windows_keep_bad_accesses),
	    cmocka_unit_test(a_series_starts_no_later_than_its_first_count),
	    cmocka_unit_test(the_sum_over_all_series_never_goes_back),
	};

	return cmocka_run_group_tests_name("aggregate", tests, NULL, NULL);
}
