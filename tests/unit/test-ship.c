/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "tests/unit/ship-fixture.h"

/* ---- a resolver that does not touch the network: libcurl's look-ups land here ---- */

static atomic_int stuck_lookups;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (node && strcmp(node, "nowhere.test") == 0)
		return EAI_NONAME;
	if (node && strcmp(node, "stuck.test") == 0) {
		atomic_fetch_add(&stuck_lookups, 1);
		usleep(1500000);
		atomic_fetch_sub(&stuck_lookups, 1);
		return EAI_AGAIN;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	return real(node, service, hints, ret);
}

/* ---- what is sent ---- */

static void a_batch_is_posted_as_compressed_protobuf(void **state)
{
	struct world *w = *state;
	const struct script_request *r = &w->server.requests[0];
	uint8_t plain[2000];

	SERVE(w, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 0, 0);
	assert_int_equal(w->self.ship_points, 10);
	assert_int_equal(w->self.ship_bytes, r->body_len);
	assert_int_equal(strncmp(r->head, "POST /v1/metrics HTTP/1.1\r\n", 27), 0);
	assert_string_equal(header(r, "Content-Type"), "application/x-protobuf");
	assert_string_equal(header(r, "Content-Encoding"), "gzip");
	assert_string_equal(header(r, "User-Agent"), "faultd/0.1.0");
	assert_null(header(r, "Expect"));
	assert_null(header(r, "Transfer-Encoding"));

	assert_int_equal(unpack(r, plain, sizeof(plain)), 1000);
	assert_true(plain[0] == 'a' && plain[999] == 'a');
	assert_string_equal(read_log(w), "");
}

static void without_compression_the_bytes_go_as_they_are(void **state)
{
	struct world *w = *state;
	const struct script_request *r = &w->server.requests[0];
	struct ship_options o;

	SERVE(w, {OK, THEN_KEEP});
	o = options_for(url_of(w->server.port));
	o.gzip = 0;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
	push(w, 'a', 2000000); /* more than a socket takes at once, and than libcurl sends without asking for leave */
	ship_kick(w->ship);
	run_until_empty(w);
	assert_null(header(r, "Content-Encoding"));
	assert_null(header(r, "Expect"));
	assert_int_equal(r->body_len, 2000000);
	assert_int_equal(r->body[1999999], 'a');
	assert_int_equal(w->self.ship_bytes, 2000000);
}

static void configured_headers_are_sent(void **state)
{
	struct world *w = *state;
	const struct ship_header headers[] = {{"Authorization", "Bearer s3cret"}, {"X-Empty", ""}};
	struct ship_options o;

	SERVE(w, {ANSWER("401 Unauthorized", EMPTY, ""), THEN_KEEP});
	o = options_for(url_of(w->server.port));
	o.headers = headers;
	o.n_headers = 2;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
	push_and_run(w);
	assert_string_equal(header(&w->server.requests[0], "Authorization"), "Bearer s3cret");
	assert_string_equal(header(&w->server.requests[0], "X-Empty"), "");
	assert_logged(w, 0, "s3cret");
}

static void a_header_with_a_line_break_is_refused(void **state)
{
	struct world *w = *state;
	const struct ship_header bad = {"X-A", "b\r\nX-C: d"};
	struct ship_options o = options_for("http://127.0.0.1:1/v1/metrics");

	o.headers = &bad;
	o.n_headers = 1;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), -EINVAL);
	assert_null(w->ship);
}

static void batches_go_in_order_over_one_connection(void **state)
{
	struct world *w = *state;

	SERVE(w, {OK, THEN_KEEP});
	make_ship(w);
	for (size_t n = 1; n <= 5; n++)
		push(w, 'a', n * 20000); /* larger ones compress to more */
	ship_kick(w->ship);
	ship_kick(w->ship); /* one request at a time */
	run_until_empty(w);
	assert_counts(w, 5, 0, 0);
	assert_int_equal(w->server.n_requests, 5);
	assert_int_equal(w->server.connections, 1);
	for (size_t n = 1; n < 5; n++)
		assert_true(w->server.requests[n].body_len > w->server.requests[n - 1].body_len);
}

/* ---- answers ---- */

static void a_partial_success_is_counted_and_never_resent(void **state)
{
	struct world *w = *state;

	/* partial_success { rejected_data_points: 3 error_message: "out of\norder" } */
	SERVE(w, {ANSWER("200 OK", "Content-Type: application/x-protobuf\r\nContent-Length: 18\r\n",
			 "\x0a\x10\x08\x03\x12\x0c"
			 "out of\norder"),
		  THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	push_and_run(w);
	assert_counts(w, 2, 0, 0);
	assert_int_equal(w->server.n_requests, 2);
	assert_int_equal(w->self.drop_partial, 3);
	assert_int_equal(w->self.ship_points, 7 + 10);
	assert_logged(w, 1, "refused 3 of its 10 data points");
	assert_logged(w, 1, "out of?order");
	assert_logged(w, 0, "resumed");
}

static void more_refusals_than_points_count_as_all(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("200 OK", "Content-Length: 5\r\n", "\x0a\x03\x08\xe8\x07"), THEN_KEEP}); /* 1,000 */
	make_ship(w);
	push_and_run(w);
	assert_int_equal(w->self.drop_partial, 10);
	assert_int_equal(w->self.ship_points, 0);
}

static void a_web_page_with_200_is_no_partial_success(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("200 OK", "Content-Type: text/html\r\nContent-Length: 5\r\n", "\x0a\x03\x08\xe8\x07"),
		  THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 0, 0);
	assert_int_equal(w->self.drop_partial, 0);
	assert_int_equal(w->self.ship_points, 10);
}

static void busy_receivers_are_asked_again(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("502 Bad Gateway", EMPTY, ""), THEN_KEEP},
	      {ANSWER("503 Service Unavailable", EMPTY, ""), THEN_KEEP},
	      {ANSWER("504 Gateway Timeout", EMPTY, ""), THEN_KEEP},
	      {ANSWER("429 Too Many Requests", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP},
	      {ANSWER("503 Service Unavailable", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 4, 0);
	assert_int_equal(w->self.ship_points, 10);
	assert_int_equal(w->server.n_requests, 5);
	assert_logged(w, 1, "cannot deliver"); /* they are of one kind */
	assert_logged(w, 1, "HTTP 502");
	assert_logged(w, 1, "resumed after 4 failed attempts");
	/* Trouble that was not told within the minute needs no word at its end. */
	push_and_run(w);
	assert_counts(w, 2, 5, 0);
	assert_logged(w, 1, "cannot deliver");
	assert_logged(w, 1, "resumed");
}

static void retry_after_in_seconds_is_honoured(void **state)
{
	struct world *w = *state;
	uint64_t waited;

	SERVE(w, {ANSWER("429 Too Many Requests", "retry-after: 1 \r\n" EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP});
	make_ship(w);
	push(w, 'a', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_retried == 1);
	ship_kick(w->ship); /* a new batch does not cut the wait short */
	run_until_empty(w);
	waited = w->server.requests[1].at_ns - w->server.requests[0].at_ns;
	assert_in_range(waited, NSEC_PER_SEC, 3 * NSEC_PER_SEC / 2);
	assert_counts(w, 1, 1, 0);
}

static void retry_after_as_a_date_is_honoured(void **state)
{
	struct world *w = *state;
	static char answer[256];
	static const struct script_step step = {answer, THEN_KEEP};
	time_t then = time(NULL) + 2;
	char date[64];
	struct tm tm;

	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&then, &tm));
	snprintf(answer, sizeof(answer), ANSWER("503 Service Unavailable", "Retry-After: %s\r\n" EMPTY, ""), date);
	serve(w, &step, 1);
	make_ship(w);
	push_and_run(w);
	assert_in_range(w->server.requests[1].at_ns - w->server.requests[0].at_ns, NSEC_PER_SEC / 2,
			5 * NSEC_PER_SEC / 2);
}

static void retry_after_zero_still_waits_a_little(void **state)
{
	struct world *w = *state;
	struct ship_options o;

	SERVE(w, {ANSWER("503 Service Unavailable", "Retry-After: 0\r\n" EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP});
	o = options_for(url_of(w->server.port));
	o.backoff_min_ns = o.backoff_max_ns = 100 * NSEC_PER_MSEC;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
	push_and_run(w);
	assert_true(w->server.requests[1].at_ns - w->server.requests[0].at_ns >= 100 * NSEC_PER_MSEC);
}

static void backoff_begins_anew_after_a_success(void **state)
{
	struct world *w = *state;
	struct ship_options o;

	SERVE(w, {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP}, {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP},
	      {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP}, {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP},
	      {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP});
	o = options_for(url_of(w->server.port));
	o.backoff_min_ns = 20 * NSEC_PER_MSEC;
	o.backoff_max_ns = 10 * NSEC_PER_SEC;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
	push_and_run(w);
	push_and_run(w);
	assert_counts(w, 2, 5, 0);
	/* The fourth wait is 160 to 320 ms, the first of the next row 20 to 40 ms. */
	assert_true(w->server.requests[4].at_ns - w->server.requests[3].at_ns >= 160 * NSEC_PER_MSEC);
	assert_true(w->server.requests[6].at_ns - w->server.requests[5].at_ns < 160 * NSEC_PER_MSEC);
}

static void a_batch_that_gave_way_while_waiting_is_not_sent(void **state)
{
	struct world *w = *state;
	uint8_t plain[2000];
	struct queue_dropped dropped;

	SERVE(w, {ANSWER("503 Busy", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP});
	make_ship(w);
	push(w, 'a', 1000);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_retried == 1);
	queue_set_max_bytes(w->queue, 999, &dropped);
	assert_int_equal(dropped.points[QUEUE_METRICS], 10);
	push(w, 'b', 500);
	run_until_empty(w);
	assert_int_equal(w->server.n_requests, 2);
	assert_int_equal(unpack(&w->server.requests[1], plain, sizeof(plain)), 500);
	assert_int_equal(plain[0], 'b');
}

static void a_bad_request_is_dropped_and_the_next_batch_goes_out(void **state)
{
	struct world *w = *state;

	SERVE(w,
	      {ANSWER("400 Bad Request", "Content-Type: text/plain\r\nContent-Length: 14\r\n", "no such\nfield!"),
	       THEN_KEEP},
	      {OK, THEN_KEEP});
	make_ship(w);
	push(w, 'a', 100);
	push(w, 'b', 100);
	ship_kick(w->ship);
	run_until_empty(w);
	assert_counts(w, 1, 0, 1);
	assert_int_equal(w->server.n_requests, 2);
	assert_int_equal(w->self.drop_rejected, 10);
	assert_logged(w, 1, "HTTP 400");
	assert_logged(w, 1, "it says: no such");
	assert_logged(w, 0, "field!");
}

static void server_errors_that_are_not_retryable_are_dropped(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("500 Internal Server Error", EMPTY, ""), THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 0, 0, 1);
	assert_int_equal(w->server.n_requests, 1);
}

static void refused_credentials_are_logged_once_a_minute(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("401 Unauthorized", EMPTY, ""), THEN_KEEP}, {ANSWER("403 Forbidden", EMPTY, ""), THEN_KEEP},
	      {ANSWER("401 Unauthorized", EMPTY, ""), THEN_KEEP});
	make_ship(w);
	for (int at = 0; at < 3; at++)
		push_and_run(w);
	assert_counts(w, 0, 0, 3);
	assert_int_equal(w->self.drop_rejected, 30);
	assert_logged(w, 1, "credentials");
	assert_logged(w, 1, "warning"); /* one line in all */
}

static void a_404_says_that_the_path_is_probably_wrong(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("404 Not Found", EMPTY, ""), THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 0, 0, 1);
	assert_logged(w, 1, "the path in ship.endpoint is probably wrong");
	assert_logged(w, 1, url_of(w->server.port));
}

static void a_413_drops_the_batch_as_too_large(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("413 Payload Too Large", EMPTY, ""), THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 0, 0, 1);
	assert_int_equal(w->self.drop_too_large, 10);
	assert_int_equal(w->self.drop_rejected, 0);
}

static void a_415_ends_compression_for_good(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("415 Unsupported Media Type", EMPTY, ""), THEN_KEEP}, {OK, THEN_KEEP}, {OK, THEN_KEEP},
	      {ANSWER("415 Unsupported Media Type", EMPTY, ""), THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	push_and_run(w);
	push_and_run(w);
	assert_counts(w, 2, 1, 1); /* without compression a 415 is a refusal */
	assert_int_equal(w->server.n_requests, 4);
	assert_non_null(header(&w->server.requests[0], "Content-Encoding"));
	for (int at = 1; at < 4; at++) {
		assert_null(header(&w->server.requests[at], "Content-Encoding"));
		assert_int_equal(w->server.requests[at].body_len, 1000);
	}
	assert_int_equal(w->self.drop_rejected, 10);
	assert_logged(w, 1, "does not take gzip");
}

static void a_redirect_is_not_followed(void **state)
{
	struct world *w = *state;

	SERVE(w,
	      {ANSWER("301 Moved Permanently", "Location: https://other.test/v1/metrics?key=abc\r\n" EMPTY, ""),
	       THEN_KEEP},
	      {ANSWER("307 Temporary Redirect", "Location: /elsewhere\r\n" EMPTY, ""), THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	push_and_run(w);
	assert_counts(w, 0, 0, 2);
	assert_int_equal(w->server.n_requests, 2);
	assert_int_equal(strncmp(w->server.requests[1].head, "POST /v1/metrics ", 17), 0);
	assert_logged(w, 1, "it points to https://other.test/v1/metrics\n");
	assert_logged(w, 0, "elsewhere"); /* the same kind within a minute */
}

static void interim_answers_are_not_the_answer(void **state)
{
	struct world *w = *state;

	SERVE(w, {"HTTP/1.1 103 Early Hints\r\nRetry-After: 200\r\n\r\n" OK, THEN_KEEP},
	      {"HTTP/1.1 102 Processing\r\nRetry-After: 200\r\n\r\n" ANSWER("503 Busy", EMPTY, ""), THEN_KEEP},
	      {OK, THEN_KEEP}, {"HTTP/1.1 103 Early Hints\r\n\r\n", THEN_RESET}, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 0, 0);
	push_and_run(w);
	assert_counts(w, 2, 1, 0);
	push_and_run(w);
	assert_counts(w, 3, 2, 0);
}

/* ---- trouble on the way ---- */

static void a_refused_connection_is_tried_again_until_it_works(void **state)
{
	struct world *w = *state;
	uint16_t port = script_closed_port();

	make_ship_at(w, url_of(port));
	push(w, 'a', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_retried == 3);
	assert_int_equal(queue_count(w->queue), 1);
	script_start(&w->server, NULL, 0, port);
	w->serving = true;
	run_until_empty(w);
	assert_int_equal(w->self.ship_sent, 1);
	assert_logged(w, 1, "connection refused");
	assert_logged(w, 1, "resumed");
}

static void an_idle_connection_that_the_server_closed_is_replaced(void **state)
{
	struct world *w = *state;

	SERVE(w, {OK, THEN_CLOSE}, {OK, THEN_CLOSE});
	make_ship(w);
	push_and_run(w);
	usleep(20000);
	push_and_run(w);
	push_and_run(w); /* at once: the end of the connection may not have been seen yet */
	assert_counts(w, 3, 0, 0);
	assert_int_equal(w->server.connections, 3);
	assert_string_equal(read_log(w), "");
}

static void a_connection_that_dies_with_the_second_request_costs_no_retry(void **state)
{
	struct world *w = *state;

	SERVE(w, {OK, THEN_KEEP}, {NULL, CLOSE_ON_REQUEST}, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	push_and_run(w);
	assert_counts(w, 2, 0, 0);
	assert_int_equal(w->server.n_requests, 3);
	assert_int_equal(w->server.connections, 2);
	assert_int_equal(w->server.requests[1].body_len, w->server.requests[2].body_len);
}

static void a_connection_closed_without_an_answer_is_retried(void **state)
{
	struct world *w = *state;

	SERVE(w, {NULL, CLOSE_ON_REQUEST}, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 1, 0);
	assert_logged(w, 1, "the connection broke before there was an answer");
}

static void a_reset_within_the_head_is_retried(void **state)
{
	struct world *w = *state;

	SERVE(w, {"HTTP/1.1 200 OK\r\nContent-", THEN_RESET}, {"HTTP/1.1 400 Bad Request\r\n", THEN_RESET},
	      {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 2, 0);
	assert_int_equal(w->server.n_requests, 3);
}

static void a_reset_within_the_body_keeps_the_answer(void **state)
{
	struct world *w = *state;

	SERVE(w, {ANSWER("200 OK", "Content-Length: 1000\r\n", "abc"), THEN_RESET},
	      {ANSWER("503 Busy", "Content-Length: 1000\r\n", "abc"), THEN_RESET}, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 0, 0);
	push_and_run(w);
	assert_counts(w, 2, 1, 0);
	assert_int_equal(w->server.n_requests, 3);
}

static void a_receiver_that_never_answers_times_out(void **state)
{
	struct world *w = *state;
	struct ship_options o;
	uint64_t before;

	SERVE(w, {"", THEN_HANG}, {OK, THEN_KEEP});
	o = options_for(url_of(w->server.port));
	o.timeout_ns = 200 * NSEC_PER_MSEC;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
	before = clock_monotonic_ns();
	push_and_run(w);
	assert_in_range(clock_monotonic_ns() - before, 200 * NSEC_PER_MSEC, NSEC_PER_SEC);
	assert_counts(w, 1, 1, 0);
	assert_logged(w, 1, "no answer within 0.2 s");
}

static void a_hanging_receiver_does_not_hold_the_loop(void **state)
{
	struct world *w = *state;
	uint64_t before, longest = 0;
	struct queue_dropped dropped;

	SERVE(w, {"", THEN_HANG});
	make_ship(w);
	push(w, 'a', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, script_count(&w->server) == 1);
	for (int at = 0; at < 20; at++) {
		before = clock_monotonic_ns();
		assert_true(sd_event_run(w->event, 1000) >= 0);
		if (clock_monotonic_ns() - before > longest)
			longest = clock_monotonic_ns() - before;
	}
	assert_true(longest < 200 * NSEC_PER_MSEC);
	assert_true(ship_busy(w->ship));
	before = clock_monotonic_ns();
	w->ship = ship_free(w->ship);
	assert_true(clock_monotonic_ns() - before < 200 * NSEC_PER_MSEC);
	/* The batch is still there, and free again: another shipper may send it, and it may give way. */
	assert_int_equal(queue_count(w->queue), 1);
	queue_set_max_bytes(w->queue, 10, &dropped);
	assert_int_equal(dropped.points[QUEUE_METRICS], 10);
}

static void an_answer_that_is_not_http_is_retried(void **state)
{
	struct world *w = *state;

	SERVE(w, {"SSH-2.0-OpenSSH_9.2\r\n", THEN_CLOSE}, {"HTTP/9.9 banana\r\n\r\n", THEN_CLOSE}, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 2, 0);
	assert_logged(w, 1, "the answer is not HTTP");
	assert_logged(w, 0, "the request failed");
}

static void a_huge_body_is_cut_and_the_status_counts(void **state)
{
	struct world *w = *state;
	uint64_t before = clock_monotonic_ns();

	SERVE(w, {ANSWER("200 OK", "Content-Type: application/x-protobuf\r\n", ""), THEN_BABBLE},
	      {ANSWER("404 Not Found", "Content-Type: text/plain\r\n", ""), THEN_BABBLE}, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	push_and_run(w);
	push_and_run(w);
	assert_counts(w, 2, 0, 1);
	assert_int_equal(w->self.drop_partial, 0);
	assert_true(strlen(read_log(w)) < 2000);
	assert_true(clock_monotonic_ns() - before < 3 * NSEC_PER_SEC / 2); /* it did not take time-outs to end them */
}

static void headers_without_end_are_given_up(void **state)
{
	struct world *w = *state;

	SERVE(w, {"HTTP/1.1 200 OK\r\nX-Long: ", THEN_BABBLE}, {OK, THEN_KEEP});
	make_ship(w);
	push_and_run(w);
	assert_counts(w, 1, 1, 0);
}

static void an_unknown_name_is_retried_and_said(void **state)
{
	struct world *w = *state;

	make_ship_at(w, "http://nowhere.test:4318/v1/metrics");
	push(w, 'a', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_retried == 2);
	assert_int_equal(queue_count(w->queue), 1);
	assert_logged(w, 1, "the name does not resolve");
}

static void tls_to_a_plain_server_is_retried_and_said(void **state)
{
	struct world *w = *state;
	char url[64];

	SERVE(w, {ANSWER("400 Bad Request", EMPTY, ""), THEN_CLOSE},
	      {ANSWER("400 Bad Request", EMPTY, ""), THEN_CLOSE});
	snprintf(url, sizeof(url), "https://127.0.0.1:%u/v1/metrics", w->server.port);
	make_ship_at(w, url);
	push(w, 'a', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_retried == 2);
	assert_int_equal(queue_count(w->queue), 1);
	assert_logged(w, 1, "TLS failure");
}

static void a_resolver_that_hangs_delays_neither_time_out_nor_end(void **state)
{
	struct world *w = *state;
	struct ship_options o = options_for("http://stuck.test:4318/v1/metrics");
	uint64_t before = clock_monotonic_ns();

	o.timeout_ns = 200 * NSEC_PER_MSEC;
	o.backoff_min_ns = 1;
	o.backoff_max_ns = 1;
	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
	push(w, 'a', 100);
	ship_kick(w->ship);
	RUN_UNTIL(w, w->self.ship_retried == 1);
	assert_logged(w, 1, "no connection within 0.2 s");
	RUN_UNTIL(w, ship_busy(w->ship) && atomic_load(&stuck_lookups) == 2);
	w->ship = ship_free(w->ship);
	assert_true(clock_monotonic_ns() - before < NSEC_PER_SEC);
	/* The look-ups' threads end by themselves; a leak checker would see them otherwise. */
	while (atomic_load(&stuck_lookups) > 0)
		usleep(10000);
	usleep(50000);
}

static void a_shipper_with_nothing_to_do_is_quiet(void **state)
{
	struct world *w = *state;

	assert_null(ship_free(NULL));
	make_ship_at(w, "http://127.0.0.1:1/v1/metrics");
	ship_kick(w->ship);
	assert_false(ship_busy(w->ship));
	for (int at = 0; at < 3; at++)
		assert_int_equal(sd_event_run(w->event, 1000), 0); /* nothing pending */
	ship_kick(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(a_batch_is_posted_as_compressed_protobuf),
	    TEST(without_compression_the_bytes_go_as_they_are),
	    TEST(configured_headers_are_sent),
	    TEST(a_header_with_a_line_break_is_refused),
	    TEST(batches_go_in_order_over_one_connection),
	    TEST(a_partial_success_is_counted_and_never_resent),
	    TEST(more_refusals_than_points_count_as_all),
	    TEST(a_web_page_with_200_is_no_partial_success),
	    TEST(busy_receivers_are_asked_again),
	    TEST(retry_after_in_seconds_is_honoured),
	    TEST(retry_after_as_a_date_is_honoured),
	    TEST(retry_after_zero_still_waits_a_little),
	    TEST(backoff_begins_anew_after_a_success),
	    TEST(a_batch_that_gave_way_while_waiting_is_not_sent),
	    TEST(a_bad_request_is_dropped_and_the_next_batch_goes_out),
	    TEST(server_errors_that_are_not_retryable_are_dropped),
	    TEST(refused_credentials_are_logged_once_a_minute),
	    TEST(a_404_says_that_the_path_is_probably_wrong),
	    TEST(a_413_drops_the_batch_as_too_large),
	    TEST(a_415_ends_compression_for_good),
	    TEST(a_redirect_is_not_followed),
	    TEST(interim_answers_are_not_the_answer),
	    TEST(a_refused_connection_is_tried_again_until_it_works),
	    TEST(an_idle_connection_that_the_server_closed_is_replaced),
	    TEST(a_connection_that_dies_with_the_second_request_costs_no_retry),
	    TEST(a_connection_closed_without_an_answer_is_retried),
	    TEST(a_reset_within_the_head_is_retried),
	    TEST(a_reset_within_the_body_keeps_the_answer),
	    TEST(a_receiver_that_never_answers_times_out),
	    TEST(a_hanging_receiver_does_not_hold_the_loop),
	    TEST(an_answer_that_is_not_http_is_retried),
	    TEST(a_huge_body_is_cut_and_the_status_counts),
	    TEST(headers_without_end_are_given_up),
	    TEST(an_unknown_name_is_retried_and_said),
	    TEST(tls_to_a_plain_server_is_retried_and_said),
	    TEST(a_resolver_that_hangs_delays_neither_time_out_nor_end),
	    TEST(a_shipper_with_nothing_to_do_is_quiet),
	};

	/* The environment's proxies are no part of these tests. */
	unsetenv("http_proxy");
	unsetenv("https_proxy");
	unsetenv("all_proxy");
	unsetenv("HTTPS_PROXY");
	unsetenv("ALL_PROXY");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
