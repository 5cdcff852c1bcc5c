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
static int push_kind(struct queue *q, enum queue_kind kind, char mark, size_t size, struct queue_dropped *ret_dropped)
{
	uint8_t *data = malloc(size);

	assert_non_null(data);
	memset(data, mark, size);
	memset(ret_dropped, 0x55, sizeof(*ret_dropped));
	return queue_push(q, kind, data, size, size / 10, 1000 + (uint64_t)mark, ret_dropped);
}

static int push(struct queue *q, char mark, size_t size, size_t *ret_dropped)
{
	struct queue_dropped dropped;
	int r = push_kind(q, QUEUE_METRICS, mark, size, &dropped);

	assert_int_equal(dropped.points[QUEUE_LOGS], 0);
	*ret_dropped = dropped.points[QUEUE_METRICS];
	return r;
}

static void push_ok(struct queue *q, char mark, size_t size, size_t expect_dropped)
{
	size_t dropped = 12345;

	assert_int_equal(push(q, mark, size, &dropped), 0);
	assert_int_equal(dropped, expect_dropped);
}

/* Capital letters are logs, the others metrics. */
static void push_either(struct queue *q, char mark, size_t size, int expect, size_t expect_metrics, size_t expect_logs)
{
	enum queue_kind kind = mark >= 'A' && mark <= 'Z' ? QUEUE_LOGS : QUEUE_METRICS;
	struct queue_dropped dropped;

	assert_int_equal(push_kind(q, kind, mark, size, &dropped), expect);
	assert_int_equal(dropped.points[QUEUE_METRICS], expect_metrics);
	assert_int_equal(dropped.points[QUEUE_LOGS], expect_logs);
}

static size_t set_max(struct queue *q, uint64_t max_bytes)
{
	struct queue_dropped dropped;

	memset(&dropped, 0x55, sizeof(dropped));
	queue_set_max_bytes(q, max_bytes, &dropped);
	assert_int_equal(dropped.points[QUEUE_LOGS], 0);
	return dropped.points[QUEUE_METRICS];
}

/* Takes the batches of a kind out, which must have these marks from the oldest on. */
static void assert_kind(struct queue *q, enum queue_kind kind, const char *marks)
{
	struct queue_item item;

	for (; *marks; marks++) {
		assert_int_equal(queue_peek(q, kind, &item), 0);
		assert_int_equal(item.kind, kind);
		assert_int_equal(item.data[0], *marks);
		assert_int_equal(item.data[item.size - 1], *marks);
		assert_int_equal(queue_ack(q, item.id), 0);
	}
	assert_int_equal(queue_peek(q, kind, &item), -ENODATA);
}

static void assert_content(struct queue *q, const char *metrics, const char *logs)
{
	assert_kind(q, QUEUE_METRICS, metrics);
	assert_kind(q, QUEUE_LOGS, logs);
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
	assert_int_equal(queue_peek(q, QUEUE_METRICS, &item), -ENODATA);
	assert_int_equal(queue_peek(q, QUEUE_LOGS, &item), -ENODATA);
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
	assert_int_equal(queue_peek(q, QUEUE_METRICS, &first), 0);
	assert_int_equal(first.size, 100);
	assert_int_equal(first.points, 10);
	assert_int_equal(first.pushed_ns, 1000 + 'a');
	assert_int_equal(queue_peek(q, QUEUE_METRICS, &again), 0);
	assert_int_equal(again.id, first.id);
	assert_int_equal(queue_count(q), 3);
	assert_content(q, "abc", "");
}

static void ids_grow_by_one_each_push(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item a, b;

	push_ok(q, 'a', 10, 0);
	push_ok(q, 'b', 10, 0);
	queue_peek(q, QUEUE_METRICS, &a);
	queue_ack(q, a.id);
	queue_peek(q, QUEUE_METRICS, &b);
	assert_int_equal(b.id, a.id + 1);
}

static void only_the_oldest_can_be_acked_and_once(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item a;

	push_ok(q, 'a', 10, 0);
	push_ok(q, 'b', 10, 0);
	queue_peek(q, QUEUE_METRICS, &a);
	assert_int_equal(queue_ack(q, a.id + 1), -ENOENT);
	assert_int_equal(queue_ack(q, a.id), 0);
	assert_int_equal(queue_ack(q, a.id), -ENOENT);
	assert_content(q, "b", "");
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
	assert_content(q, "de", "");
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
	assert_content(q, "d", "");
}

static void a_batch_being_sent_never_gives_way(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;
	size_t dropped = 0;

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 300, 0);
	push_ok(q, 'c', 300, 0);
	queue_peek(q, QUEUE_METRICS, &held);
	push_ok(q, 'd', 300, 30);
	push_ok(q, 'e', 500, 30 + 30);
	assert_int_equal(held.data[399], 'a');
	/* Not even an empty rest of the queue would make room, so the rest stays. */
	assert_int_equal(push(q, 'f', 601, &dropped), -ENOSPC);
	assert_int_equal(dropped, 60);
	assert_content(q, "ae", "");
}

static void a_released_batch_may_give_way_again(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 300, 0);
	queue_peek(q, QUEUE_METRICS, &held);
	queue_release(q, held.id + 1); /* another's id: no effect */
	push_ok(q, 'c', 500, 30);
	queue_release(q, held.id);
	push_ok(q, 'd', 500, 40);
	assert_int_equal(queue_ack(q, held.id), -ENOENT);
	assert_content(q, "cd", "");
}

static void the_next_batch_is_free_after_an_ack(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;

	push_ok(q, 'a', 500, 0);
	push_ok(q, 'b', 500, 0);
	queue_peek(q, QUEUE_METRICS, &held);
	queue_ack(q, held.id);
	push_ok(q, 'c', 1000, 50);
	assert_content(q, "c", "");
}

static void a_smaller_bound_drops_the_oldest_at_once(void **state)
{
	auto_queue *q = make_queue(1000);

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 300, 0);
	push_ok(q, 'c', 300, 0);
	assert_int_equal(set_max(q, 600), 40);
	assert_int_equal(queue_max_bytes(q), 600);
	assert_content(q, "bc", "");
}

static void a_larger_bound_drops_nothing(void **state)
{
	auto_queue *q = make_queue(100);

	push_ok(q, 'a', 100, 0);
	assert_int_equal(set_max(q, 300), 0);
	push_ok(q, 'b', 200, 0);
	assert_content(q, "ab", "");
}

static void a_bound_below_what_is_being_sent_spares_it(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;
	size_t dropped = 0;

	push_ok(q, 'a', 400, 0);
	push_ok(q, 'b', 300, 0);
	queue_peek(q, QUEUE_METRICS, &held);
	assert_int_equal(set_max(q, 350), 30);
	assert_int_equal(queue_count(q), 1);
	assert_int_equal(push(q, 'c', 10, &dropped), -ENOSPC);
	assert_int_equal(dropped, 1);
	queue_release(q, held.id);
	push_ok(q, 'd', 10, 40);
	assert_content(q, "d", "");
}

static void a_bound_of_zero_holds_nothing(void **state)
{
	auto_queue *q = make_queue(0);
	size_t dropped = 0;

	assert_int_equal(push(q, 'a', 10, &dropped), -EFBIG);
	assert_int_equal(dropped, 1);
	assert_int_equal(queue_count(q), 0);
}

/* ---- two kinds ---- */

static void each_kind_has_its_own_order(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item metrics, logs;

	push_either(q, 'a', 100, 0, 0, 0);
	push_either(q, 'A', 200, 0, 0, 0);
	push_either(q, 'b', 400, 0, 0, 0);
	push_either(q, 'B', 300, 0, 0, 0);
	assert_int_equal(queue_count(q), 4);
	assert_int_equal(queue_bytes(q), 1000);
	/* Both may be peeked; either may be done first. */
	assert_int_equal(queue_peek(q, QUEUE_METRICS, &metrics), 0);
	assert_int_equal(queue_peek(q, QUEUE_LOGS, &logs), 0);
	assert_int_equal(logs.id, metrics.id + 1);
	assert_int_equal(logs.points, 20);
	assert_int_equal(queue_ack(q, logs.id), 0);
	assert_int_equal(queue_ack(q, logs.id), -ENOENT);
	assert_content(q, "ab", "B");
}

static void metrics_give_way_before_logs(void **state)
{
	auto_queue *q = make_queue(1000);

	push_either(q, 'A', 200, 0, 0, 0); /* the oldest of all */
	push_either(q, 'a', 400, 0, 0, 0);
	push_either(q, 'b', 400, 0, 0, 0);
	push_either(q, 'B', 100, 0, 40, 0);
	push_either(q, 'c', 500, 0, 40, 0);
	push_either(q, 'C', 200, 0, 0, 0);
	push_either(q, 'd', 500, 0, 50, 0);
	assert_content(q, "d", "ABC");
}

static void logs_take_half_of_the_bound(void **state)
{
	auto_queue *q = make_queue(1001);

	push_either(q, 'A', 200, 0, 0, 0);
	push_either(q, 'B', 300, 0, 0, 0); /* the half, to the byte */
	push_either(q, 'C', 1, 0, 0, 20);  /* though there is room */
	push_either(q, 'a', 700, 0, 0, 0);
	push_either(q, 'D', 500, 0, 70, 30);
	push_either(q, 'E', 501, -EFBIG, 0, 50);
	push_either(q, 'b', 501, 0, 0, 0);
	assert_content(q, "b", "D");
}

static void logs_never_give_way_to_metrics(void **state)
{
	auto_queue *q = make_queue(1000);

	push_either(q, 'A', 500, 0, 0, 0);
	push_either(q, 'a', 400, 0, 0, 0);
	/* Without a word to what is there: the loss of `a` would not make room either. */
	push_either(q, 'b', 501, -ENOSPC, 50, 0);
	push_either(q, 'c', 1001, -EFBIG, 100, 0);
	push_either(q, 'd', 500, 0, 40, 0);
	assert_content(q, "d", "A");
}

static void metrics_being_sent_do_not_give_way_to_logs(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;

	push_either(q, 'a', 600, 0, 0, 0);
	push_either(q, 'b', 100, 0, 0, 0);
	push_either(q, 'A', 300, 0, 0, 0);
	assert_int_equal(queue_peek(q, QUEUE_METRICS, &held), 0);
	push_either(q, 'B', 100, 0, 10, 0);
	push_either(q, 'C', 350, 0, 0, 30 + 10);
	push_either(q, 'D', 401, -ENOSPC, 0, 40);
	queue_release(q, held.id);
	push_either(q, 'E', 100, 0, 60, 0);
	assert_content(q, "", "CE");
}

static void logs_being_sent_never_give_way(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_item held;

	push_either(q, 'A', 200, 0, 0, 0);
	push_either(q, 'B', 200, 0, 0, 0);
	assert_int_equal(queue_peek(q, QUEUE_LOGS, &held), 0);
	push_either(q, 'C', 300, 0, 0, 20);
	assert_int_equal(held.data[199], 'A');
	push_either(q, 'D', 301, -ENOSPC, 0, 30);
	push_either(q, 'a', 500, 0, 0, 0);
	assert_content(q, "a", "AC");
}

static void a_smaller_bound_drops_metrics_first(void **state)
{
	auto_queue *q = make_queue(1000);
	struct queue_dropped dropped;

	push_either(q, 'A', 100, 0, 0, 0);
	push_either(q, 'B', 200, 0, 0, 0);
	push_either(q, 'a', 300, 0, 0, 0);
	push_either(q, 'b', 300, 0, 0, 0);
	queue_set_max_bytes(q, 800, &dropped);
	assert_int_equal(dropped.points[QUEUE_METRICS], 30);
	assert_int_equal(dropped.points[QUEUE_LOGS], 0);
	queue_set_max_bytes(q, 500, &dropped);
	assert_int_equal(dropped.points[QUEUE_METRICS], 0);
	assert_int_equal(dropped.points[QUEUE_LOGS], 10); /* over the half */
	queue_set_max_bytes(q, 400, &dropped);
	assert_int_equal(dropped.points[QUEUE_METRICS], 30);
	assert_int_equal(dropped.points[QUEUE_LOGS], 0);
	assert_content(q, "", "B");
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
	    cmocka_unit_test(each_kind_has_its_own_order),
	    cmocka_unit_test(metrics_give_way_before_logs),
	    cmocka_unit_test(logs_take_half_of_the_bound),
	    cmocka_unit_test(logs_never_give_way_to_metrics),
	    cmocka_unit_test(metrics_being_sent_do_not_give_way_to_logs),
	    cmocka_unit_test(logs_being_sent_never_give_way),
	    cmocka_unit_test(a_smaller_bound_drops_metrics_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
