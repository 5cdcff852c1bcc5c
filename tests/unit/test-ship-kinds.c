/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics and logs on their way to the same receiver: what one costs the other.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/ship-fixture.h"

#define NOT_FOUND ANSWER("404 Not Found", EMPTY, "")
#define BUSY_FOR_LONG ANSWER("503 Service Unavailable", "Retry-After: 100\r\n" EMPTY, "")
#define PROTOBUF "Content-Type: application/x-protobuf\r\n"

static bool is_of(const struct script_request *r, const char *path)
{
	size_t len = strlen(path);

	return strncmp(r->head, "POST ", 5) == 0 && strncmp(r->head + 5, path, len) == 0 && r->head[5 + len] == ' ';
}

/* The paths of all requests so far: 'm' for metrics, 'l' for logs. */
static void assert_paths(const struct world *w, const char *expected)
{
	char paths[SCRIPT_REQUESTS_MAX + 1] = "";

	for (size_t at = 0; at < w->server.n_requests; at++) {
		const struct script_request *r = &w->server.requests[at];

		paths[at] = is_of(r, "/v1/metrics") ? 'm' : is_of(r, "/v1/logs") ? 'l' : '?';
	}
	assert_string_equal(paths, expected);
}

static char mark_of(const struct script_request *r)
{
	uint8_t plain[2000];

	assert_true(unpack(r, plain, sizeof(plain)) > 0);
	return (char)plain[0];
}

static void each_kind_has_its_path_and_its_counters(void **state)
{
	struct world *w = *state;

	SERVE(w, {OK, THEN_KEEP});
	make_ship(w);
	push(w, 'm', 1000);
	push_logs(w, 'l', 1000);
	push_logs(w, 'L', 1000);
	ship_kick(w->ship);
	run_until_empty(w);
	assert_paths(w, "mll");
	assert_int_equal(mark_of(&w->server.requests[1]), 'l');
	assert_int_equal(mark_of(&w->server.requests[2]), 'L');
	assert_string_equal(header(&w->server.requests[1], "Content-Type"), "application/x-protobuf");
	assert_string_equal(header(&w->server.requests[1], "Content-Encoding"), "gzip");
	assert_int_equal(w->server.connections, 1);
	assert_counts(w, 3, 0, 0);
	assert_int_equal(w->self.ship_points, 10);
	assert_int_equal(w->self.ship_log_records, 20);
	assert_string_equal(read_log(w), "");
}

static void a_base_url_serves_both(void **state)
{
	struct world *w = *state;
	char url[64];

	SERVE(w, {OK, THEN_KEEP});
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/tenant/", w->server.port);
	make_ship_at(w, url);
	push(w, 'm', 100);
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	run_until_empty(w);
	assert_true(is_of(&w->server.requests[0], "/tenant/v1/metrics"));
	assert_true(is_of(&w->server.requests[1], "/tenant/v1/logs"));
}

static void an_endpoint_that_is_none_is_refused(void **state)
{
	struct world *w = *state;
	struct ship_options o = options_for("ftp://127.0.0.1/");

	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), -EINVAL);
	assert_null(w->ship);
}

static void the_kinds_take_turns(void **state)
{
	struct world *w = *state;

	SERVE(w, {OK, THEN_KEEP});
	make_ship(w);
	for (int at = 0; at < 3; at++)
		push(w, 'm', 100);
	for (int at = 0; at < 4; at++)
		push_logs(w, 'l', 100);
	ship_kick(w->ship);
	run_until_empty(w);
	assert_paths(w, "mlmlmll");
}

static void logs_that_wait_do_not_hold_metrics_back(void **state)
{
	struct world *w = *state;

	SERVE(w, {BUSY_FOR_LONG, THEN_KEEP}, {OK, THEN_KEEP}, {OK, THEN_KEEP});
	make_ship(w);
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_retried == 1);
	push(w, 'm', 100);
	push(w, 'm', 100);
	push_logs(w, 'L', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_sent == 2);
	assert_paths(w, "lmm");
	assert_int_equal(queue_count(w->queue), 2);
	assert_false(ship_busy(w->ship));
}

static void metrics_that_wait_do_not_hold_logs_back(void **state)
{
	struct world *w = *state;

	SERVE(w, {BUSY_FOR_LONG, THEN_KEEP}, {OK, THEN_KEEP}, {OK, THEN_KEEP});
	make_ship(w);
	push(w, 'm', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_retried == 1);
	push_logs(w, 'l', 100);
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_sent == 2);
	assert_paths(w, "mll");
	assert_int_equal(w->self.ship_log_records, 20);
	assert_int_equal(queue_count(w->queue), 1);
}

/* A success of one kind says nothing about the other. */
static void backoff_of_a_kind_grows_while_the_other_gets_through(void **state)
{
	struct world *w = *state;
	struct ship_options o;
	size_t logs = 0;

	SERVE(w, {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP},
	      {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP}, {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP},
	      {OK, THEN_KEEP}, {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP}, {OK, THEN_KEEP});
	o = options_for(url_of(w->server.port));
	o.backoff_min_ns = 20 * NSEC_PER_MSEC;
	o.backoff_max_ns = 10 * NSEC_PER_SEC;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	for (uint64_t round = 1; round <= 4; round++) {
		RUN_UNTIL(w, w->self.ship_retried == round);
		push(w, 'm', 100);
		ship_kick(w->ship);
		RUN_UNTIL(w, w->self.ship_sent == round);
	}
	run_until_empty(w);
	assert_paths(w, "lmlmlmlml");
	for (size_t at = 0; at < w->server.n_requests; at++)
		logs += mark_of(&w->server.requests[at]) == 'l';
	assert_int_equal(logs, 5); /* each attempt had the batch whole */
	/* The fourth wait is 160 to 320 ms. */
	assert_true(w->server.requests[8].at_ns - w->server.requests[6].at_ns >= 160 * NSEC_PER_MSEC);
	assert_logged(w, 1, "/v1/logs: HTTP 503");
	assert_logged(w, 1, "/v1/logs resumed after 4 failed attempts");
	assert_logged(w, 0, "/v1/metrics");
}

static void a_receiver_without_logs_gets_metrics_on(void **state)
{
	struct world *w = *state;

	SERVE(w, {NOT_FOUND, THEN_KEEP}, {OK, THEN_KEEP}, {ANSWER("405 Method Not Allowed", EMPTY, ""), THEN_KEEP},
	      {OK, THEN_KEEP}, {ANSWER("501 Not Implemented", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP});
	make_ship(w);
	for (int at = 0; at < 3; at++) {
		push_logs(w, 'l', 100);
		ship_kick(w->ship);
		push(w, 'm', 100);
		run_until_empty(w);
	}
	assert_paths(w, "lmlmlm"); /* and none twice */
	assert_counts(w, 3, 0, 3);
	assert_int_equal(w->self.ship_points, 30);
	assert_int_equal(w->self.ship_log_records, 0);
	assert_int_equal(w->self.drop_log_unsupported, 30);
	assert_int_equal(w->self.drop_log_rejected, 0);
	assert_int_equal(w->self.drop_rejected, 0);
	assert_logged(w, 1, "warning"); /* one line in all */
	assert_logged(w, 1, "/v1/logs takes no log records (HTTP 404)");
	assert_logged(w, 0, "resumed");

	/* It learns it: the next batch gets through. */
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	run_until_empty(w);
	assert_int_equal(w->self.ship_log_records, 10);
	assert_logged(w, 1, "/v1/logs resumed after 3 failed attempts");
}

/* As VictoriaMetrics answers to a path that it does not know. */
static void a_400_to_the_first_logs_means_that_it_takes_none(void **state)
{
	struct world *w = *state;

	SERVE(w, {OK, THEN_KEEP},
	      {ANSWER("400 Bad Request", "Content-Type: text/plain\r\nContent-Length: 16\r\n", "unsupported path"),
	       THEN_KEEP},
	      {OK, THEN_KEEP}, {ANSWER("400 Bad Request", EMPTY, ""), THEN_KEEP});
	make_ship(w);
	for (int at = 0; at < 2; at++) {
		push(w, 'm', 100);
		ship_kick(w->ship);
		push_logs(w, 'l', 100);
		run_until_empty(w);
	}
	assert_paths(w, "mlml");
	assert_int_equal(w->self.drop_log_unsupported, 20);
	assert_int_equal(w->self.drop_log_rejected, 0);
	assert_int_equal(w->self.ship_points, 20);
	assert_logged(w, 1, "warning");
	assert_logged(w, 1, "takes no log records (HTTP 400)");
	assert_logged(w, 1, "it says: unsupported path");
}

static void a_404_to_metrics_stops_no_logs(void **state)
{
	struct world *w = *state;

	SERVE(w, {NOT_FOUND, THEN_KEEP}, {OK, THEN_KEEP});
	make_ship(w);
	push(w, 'm', 100);
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	run_until_empty(w);
	assert_int_equal(w->self.drop_rejected, 10);
	assert_int_equal(w->self.drop_log_unsupported, 0);
	assert_int_equal(w->self.ship_log_records, 10);
	assert_logged(w, 1, "the path in ship.endpoint is probably wrong");
}

static void refused_logs_are_counted_as_logs(void **state)
{
	struct world *w = *state;

	SERVE(w, {OK, THEN_KEEP}, {ANSWER("400 Bad Request", EMPTY, ""), THEN_KEEP},
	      {ANSWER("413 Payload Too Large", EMPTY, ""), THEN_KEEP});
	make_ship(w);
	for (int at = 0; at < 3; at++)
		push_logs(w, 'l', 100);
	ship_kick(w->ship);
	run_until_empty(w);
	assert_counts(w, 1, 0, 2);
	assert_int_equal(w->self.drop_log_rejected, 10);
	assert_int_equal(w->self.drop_log_too_large, 10);
	assert_int_equal(w->self.drop_rejected + w->self.drop_too_large, 0);
	assert_logged(w, 1, "refused a batch of 10 log records, which are dropped: HTTP 400");
}

static void a_partial_success_of_logs_is_counted_as_logs(void **state)
{
	struct world *w = *state;

	/* partial_success { rejected_log_records: 4 error_message: "too old" } */
	SERVE(w, {ANSWER("200 OK", PROTOBUF "Content-Length: 13\r\n",
			 "\x0a\x0b\x08\x04\x12\x07"
			 "too old"),
		  THEN_KEEP});
	make_ship(w);
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	run_until_empty(w);
	assert_counts(w, 1, 0, 0);
	assert_int_equal(w->self.ship_log_records, 6);
	assert_int_equal(w->self.drop_log_partial, 4);
	assert_int_equal(w->self.drop_partial + w->self.ship_points, 0);
	assert_logged(w, 1, "/v1/logs took a batch but refused 4 of its 10 log records, ignoring: too old");
}

static void a_415_ends_compression_for_both(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("503 Busy", "Retry-After: 0\r\n" EMPTY, ""), THEN_KEEP},
	      {ANSWER("415 Unsupported Media Type", EMPTY, ""), THEN_KEEP});
	make_ship(w);
	push_logs(w, 'l', 1000);
	ship_kick(w->ship);
	push(w, 'm', 1000);
	run_until_empty(w);
	assert_counts(w, 2, 2, 0);
	assert_int_equal(w->server.n_requests, 4);
	for (size_t at = 2; at < 4; at++) {
		assert_null(header(&w->server.requests[at], "Content-Encoding"));
		assert_int_equal(w->server.requests[at].body_len, 1000); /* nor what was packed before */
	}
	assert_int_equal(w->self.ship_bytes, 2000);
}

static void a_hanging_path_costs_the_other_one_time_out(void **state)
{
	struct world *w = *state;
	struct ship_options o;

	SERVE(w, {"", THEN_HANG}, {OK, THEN_KEEP});
	o = options_for(url_of(w->server.port));
	o.timeout_ns = 200 * NSEC_PER_MSEC;
	o.backoff_min_ns = o.backoff_max_ns = 100 * NSEC_PER_SEC;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	push(w, 'm', 100);
	RUN_UNTIL(w, w->self.ship_sent == 1);
	assert_int_equal(w->self.ship_points, 10);
	assert_int_equal(w->self.ship_retried, 1);
	assert_int_equal(queue_count(w->queue), 1);
}

static void the_end_frees_the_batch_under_way(void **state)
{
	struct world *w = *state;
	struct queue_dropped dropped;

	SERVE(w, {"", THEN_HANG});
	make_ship(w);
	push_logs(w, 'l', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, script_count(&w->server) == 1);
	w->ship = ship_free(w->ship);
	queue_set_max_bytes(w->queue, 10, &dropped);
	assert_int_equal(dropped.points[QUEUE_LOGS], 10);
	ship_count_dropped(&w->self, &dropped);
	assert_int_equal(w->self.drop_log_queue_full, 10);
	assert_int_equal(w->self.drop_queue_full, 0);
}

static void what_gave_way_is_counted_by_kind(void **state)
{
	struct world *w = *state;

	ship_count_dropped(&w->self, &(struct queue_dropped){{[QUEUE_METRICS] = 3, [QUEUE_LOGS] = 4}});
	ship_count_dropped(&w->self, &(struct queue_dropped){{[QUEUE_METRICS] = 5}});
	assert_int_equal(w->self.drop_queue_full, 8);
	assert_int_equal(w->self.drop_log_queue_full, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(each_kind_has_its_path_and_its_counters),
	    TEST(a_base_url_serves_both),
	    TEST(an_endpoint_that_is_none_is_refused),
	    TEST(the_kinds_take_turns),
	    TEST(logs_that_wait_do_not_hold_metrics_back),
	    TEST(metrics_that_wait_do_not_hold_logs_back),
	    TEST(backoff_of_a_kind_grows_while_the_other_gets_through),
	    TEST(a_receiver_without_logs_gets_metrics_on),
	    TEST(a_400_to_the_first_logs_means_that_it_takes_none),
	    TEST(a_404_to_metrics_stops_no_logs),
	    TEST(refused_logs_are_counted_as_logs),
	    TEST(a_partial_success_of_logs_is_counted_as_logs),
	    TEST(a_415_ends_compression_for_both),
	    TEST(a_hanging_path_costs_the_other_one_time_out),
	    TEST(the_end_frees_the_batch_under_way),
	    TEST(what_gave_way_is_counted_by_kind),
	};

	/* The environment's proxies are no part of these tests. */
	unsetenv("http_proxy");
	unsetenv("https_proxy");
	unsetenv("all_proxy");
	unsetenv("HTTPS_PROXY");
	unsetenv("ALL_PROXY");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
