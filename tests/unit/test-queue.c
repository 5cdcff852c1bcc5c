/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/sink/queue.h"

DEFINE_CLEANUP(queue_local, struct queue *, queue_free)
#define auto_queue cleanup(queue_local) struct queue

static struct queue *make_queue(uint64_t max_bytes)
{
	struct queue *q = NULL;

	assert_int_equal(queue_new(max_bytes, &q), 0);
	return q;
}

/* Pushes `size` bytes that all hold `mark`; `size` / 10 data points. */
static int push(struct queue *q, char mark, size_t size, size_t *ret_dropped)
{
	uint8_t *data = malloc(size);

	assert_non_null(data);
	memset(data, mark, size);
	return queue_push(q, data, size, size / 10, 1000 + (uint64_t)mark, ret_dropped);
}

static void push_ok(struct queue *q, char mark, size_t size, size_t expect_dropped)
{
	size_t dropped = 12345;

	assert_int_equal(push(q, mark, size, &dropped), 0);
	assert_int_equal(dropped, expect_dropped);
}

/* The marks of the batches from the oldest on; empties the queue. */
static void assert_content(struct queue *q, const char *marks)
{
	struct queue_item item;

	for (; *marks; marks++) {
		assert_int_equal(queue_peek(q, &item), 0);
		assert_int_equal(item.data[0], *marks);
		assert_int_equal(item.data[item.size - 1], *marks);
		assert_int_equal(queue_ack(q, item.id), 0);
	}
	assert_int_equal(queue_peek(q, &item), -ENODATA);
	assert_int_equal(queue_count(q), 0);
	assert_int_equal(queue_bytes(q), 0);
}

static void a_new_queue_is_empty(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item item;

	assert_int_equal(queue_count(q), 0);
	assert_int_equal(queue_bytes(q), 0);
	assert_int_equal(queue_max_bytes(q), 1000);
	assert_int_equal(queue_peek(q, &item), -ENODATA);
	assert_int_equal(queue_ack(q, 1), -ENOENT);
	queue_release(q, 1);
	assert_null(queue_free(NULL));
}

static void batches_leave_in_the_order_they_came(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item first, again;

	push_ok(q, 'a', 100, 0);
	push_ok(q, 'b', 200, 0);
	push_ok(q, 'c', 300, 0);
	assert_int_equal(queue_count(q), 3);
	assert_int_equal(queue_bytes(q), 600);
	assert_int_equal(queue_peek(q, &first), 0);
	assert_int_equal(first.size, 100);
	assert_int_equal(first.points, 10);
	assert_int_equal(first.pushed_ns, 1000 + 'a');
	assert_int_equal(queue_peek(q, &again), 0);
	assert_int_equal(again.id, first.id);
	assert_int_equal(queue_count(q), 3);
	assert_content(q, "abc");
}

static void ids_grow_by_one_each_push(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item a, b;

	push_ok(q, 'a', 10, 0);
	push_ok(q, 'b', 10, 0);
	queue_peek(q, &a);
	queue_ack(q, a.id);
	queue_peek(q, &b);
	assert_int_equal(b.id, a.id + 1);
}

static void only_the_oldest_can_be_acked_and_once(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item a;

	push_ok(q, 'a', 10, 0);
	push_ok(q, 'b', 10, 0);
	queue_peek(q, &a);
	assert_int_equal(queue_ack(q, a.id + 1), -ENOENT);
	assert_int_equal(queue_ack(q, a.id), 0);
	assert_int_equal(queue_ack(q, a.id), -ENOENT);
	assert_content(q, "b");
}

static void a_full_queue_drops_its_oldest(void **state)
{
	auto_queue *q = make_queue(1000);

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 400, 0);
	push_ok(q, 'c', 200, 0); /* exactly full */
	push_ok(q, 'd', 10, 40);
	assert_int_equal(queue_bytes(q), 610);
	push_ok(q, 'e', 900, 40 + 20); /* d still fits beside it */
	assert_content(q, "de");
}

static void a_batch_larger_than_the_bound_is_refused_and_harms_no_other(void **state)
{
	auto_queue *q = make_queue(1000);
	size_t dropped = 0;

	push_ok(q, 'a', 400, 0);
	assert_int_equal(push(q, 'b', 1001, &dropped), -EFBIG);
	assert_int_equal(dropped, 100);
	push_ok(q, 'c', 600, 0);
	push_ok(q, 'd', 1000, 40 + 60);
	assert_content(q, "d");
}

static void a_batch_being_sent_never_gives_way(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;
	size_t dropped = 0;

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 300, 0);
	push_ok(q, 'c', 300, 0);
	queue_peek(q, &held);
	push_ok(q, 'd', 300, 30);
	push_ok(q, 'e', 500, 30 + 30);
	assert_int_equal(held.data[399], 'a');
	/* Not even an empty rest of the queue would make room, so the rest stays. */
	assert_int_equal(push(q, 'f', 601, &dropped), -ENOSPC);
	assert_int_equal(dropped, 60);
	assert_content(q, "ae");
}

static void a_released_batch_may_give_way_again(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 300, 0);
	queue_peek(q, &held);
	queue_release(q, held.id + 1); /* another's id: no effect */
	push_ok(q, 'c', 500, 30);
	queue_release(q, held.id);
	push_ok(q, 'd', 500, 40);
	assert_int_equal(queue_ack(q, held.id), -ENOENT);
	assert_content(q, "cd");
}

static void the_next_batch_is_free_after_an_ack(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;

	push_ok(q, 'a', 500, 0);
	push_ok(q, 'b', 500, 0);
	queue_peek(q, &held);
	queue_ack(q, held.id);
	push_ok(q, 'c', 1000, 50);
	assert_content(q, "c");
}

static void a_smaller_bound_drops_the_oldest_at_once(void **state)
{
	auto_queue *q = make_queue(1000);
	size_t dropped = 0;

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 300, 0);
	push_ok(q, 'c', 300, 0);
	queue_set_max_bytes(q, 600, &dropped);
	assert_int_equal(dropped, 40);
	assert_int_equal(queue_max_bytes(q), 600);
	assert_content(q, "bc");
}

static void a_larger_bound_drops_nothing(void **state)
{
	auto_queue *q = make_queue(100);
	size_t dropped = 7;

	push_ok(q, 'a', 100, 0);
	queue_set_max_bytes(q, 300, &dropped);
	assert_int_equal(dropped, 0);
	push_ok(q, 'b', 200, 0);
	assert_content(q, "ab");
}

static void a_bound_below_what_is_being_sent_spares_it(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;
	size_t dropped = 0;

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 300, 0);
	queue_peek(q, &held);
	queue_set_max_bytes(q, 350, &dropped);
	assert_int_equal(dropped, 30);
	assert_int_equal(queue_count(q), 1);
	assert_int_equal(push(q, 'c', 10, &dropped), -ENOSPC);
	assert_int_equal(dropped, 1);
	queue_release(q, held.id);
	push_ok(q, 'd', 10, 40);
	assert_content(q, "d");
}

static void a_bound_of_zero_holds_nothing(void **state)
{
	auto_queue *q = make_queue(0);
	size_t dropped = 0;

	assert_int_equal(push(q, 'a', 10, &dropped), -EFBIG);
	assert_int_equal(dropped, 1);
	assert_int_equal(queue_count(q), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_new_queue_is_empty),
	    cmocka_unit_test(batches_leave_in_the_order_they_came),
	    cmocka_unit_test(ids_grow_by_one_each_push),
	    cmocka_unit_test(only_the_oldest_can_be_acked_and_once),
	    cmocka_unit_test(a_full_queue_drops_its_oldest),
	    cmocka_unit_test(a_batch_larger_than_the_bound_is_refused_and_harms_no_other),
	    cmocka_unit_test(a_batch_being_sent_never_gives_way),
	    cmocka_unit_test(a_released_batch_may_give_way_again),
	    cmocka_unit_test(the_next_batch_is_free_after_an_ack),
	    cmocka_unit_test(a_smaller_bound_drops_the_oldest_at_once),
	    cmocka_unit_test(a_larger_bound_drops_nothing),
	    cmocka_unit_test(a_bound_below_what_is_being_sent_spares_it),
	    cmocka_unit_test(a_bound_of_zero_holds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
