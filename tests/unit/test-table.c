/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table against a plain array that does the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/table.h"

static int things[1000];

static struct table *make(size_t capacity)
{
	struct table *t = NULL;

	assert_int_equal(table_new(capacity, &t), 0);
	assert_int_equal(table_count(t), 0);
	assert_int_equal(table_capacity(t), capacity);
	return t;
}

static void what_was_put_is_found(void **state)
{
	static const uint64_t ids[] = {0, 1, 2, UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, UINT64_MAX};
	struct table *t = make(10);

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_null(table_get(t, ids[i]));
		assert_int_equal(table_put(t, ids[i], &things[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		assert_ptr_equal(table_get(t, ids[i]), &things[i]);
	assert_null(table_get(t, 3));
	assert_int_equal(table_count(t), ARRAY_SIZE(ids));
	table_free(t);
}

static void an_id_is_put_once(void **state)
{
	struct table *t = make(2);

	assert_int_equal(table_put(t, 5, &things[0]), 0);
	assert_int_equal(table_put(t, 5, &things[1]), -EEXIST);
	assert_ptr_equal(table_get(t, 5), &things[0]);
	assert_ptr_equal(table_remove(t, 5), &things[0]);
	assert_null(table_remove(t, 5));
	assert_int_equal(table_put(t, 5, &things[1]), 0);
	table_free(t);
}

static void the_capacity_is_exact_and_comes_back(void **state)
{
	struct table *t = make(3);

	for (int turn = 0; turn < 100; turn++) {
		for (uint64_t id = 0; id < 3; id++)
			assert_int_equal(table_put(t, id * 1000, &things[id]), 0);
		assert_int_equal(table_put(t, 9, &things[9]), -ENOSPC);
		assert_int_equal(table_put(t, 1000, &things[9]), -EEXIST);
		for (uint64_t id = 0; id < 3; id++)
			assert_ptr_equal(table_remove(t, id * 1000), &things[id]);
		assert_int_equal(table_count(t), 0);
	}
	table_free(t);
}

static void a_table_of_nothing_holds_nothing(void **state)
{
	struct table *t = make(0);

	assert_int_equal(table_put(t, 1, &things[0]), -ENOSPC);
	assert_null(table_get(t, 1));
	table_free(t);
	assert_null(table_free(NULL));
}

static void an_absurd_capacity_is_refused(void **state)
{
	struct table *t = NULL;

	assert_int_equal(table_new(SIZE_MAX, &t), -ENOMEM);
	assert_null(t);
}

struct visits {
	struct table *table;
	uint64_t sum;
	size_t count;
	bool remove;
};

static void visit(uint64_t id, void *value, void *userdata)
{
	struct visits *v = userdata;

	assert_ptr_equal(value, &things[id]);
	v->sum += id;
	v->count++;
	if (v->remove && id % 2)
		assert_ptr_equal(table_remove(v->table, id), value);
}

static void a_visit_meets_each_once_and_may_remove_it(void **state)
{
	struct visits v = {.table = make(1000), .remove = true};

	for (uint64_t id = 0; id < 1000; id++)
		assert_int_equal(table_put(v.table, id, &things[id]), 0);
	table_visit(v.table, visit, &v);
	assert_int_equal(v.count, 1000);
	assert_int_equal(v.sum, 999 * 1000 / 2);
	assert_int_equal(table_count(v.table), 500);
	v = (struct visits){.table = v.table};
	table_visit(v.table, visit, &v);
	assert_int_equal(v.count, 500);
	assert_int_equal(v.sum, 999 * 1000 / 2 - 250000);
	table_free(v.table);
}

static void random_use_agrees_with_an_array(void **state)
{
	struct table *t = make(500);
	void *want[1000] = {NULL};
	size_t count = 0;

	srand(4);
	for (int i = 0; i < 200000; i++) {
		size_t at = (size_t)rand() % 1000;
		/* Ids of one bucket, and ids that differ in the upper half only. */
		uint64_t id = at % 2 ? (uint64_t)at << 32 : at * 4096;
		int r;

		assert_ptr_equal(table_get(t, id), want[at]);
		if (rand() % 2) {
			r = table_put(t, id, &things[at]);
			assert_int_equal(r, want[at] ? -EEXIST : count == 500 ? -ENOSPC : 0);
			count += r == 0;
			if (r == 0)
				want[at] = &things[at];
		} else {
			assert_ptr_equal(table_remove(t, id), want[at]);
			count -= want[at] != NULL;
			want[at] = NULL;
		}
		assert_int_equal(table_count(t), count);
	}
	table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_was_put_is_found),
	    cmocka_unit_test(an_id_is_put_once),
	    cmocka_unit_test(the_capacity_is_exact_and_comes_back),
	    cmocka_unit_test(a_table_of_nothing_holds_nothing),
	    cmocka_unit_test(an_absurd_capacity_is_refused),
	    cmocka_unit_test(a_visit_meets_each_once_and_may_remove_it),
	    cmocka_unit_test(random_use_agrees_with_an_array),
	};
	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
