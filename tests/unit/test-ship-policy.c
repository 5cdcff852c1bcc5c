/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/sink/ship.h"
#include "daemon/sink/ship_policy.h"

#define S NSEC_PER_SEC

/* ---- URLs ---- */

static void assert_url_of(const char *endpoint, enum queue_kind signal, const char *expected)
{
	auto_free char *url = NULL;
	int r = ship_url(endpoint, signal, &url);

	if (!expected) {
		if (r != -EINVAL)
			fail_msg("\"%s\" was taken as %s", endpoint, url);
		return;
	}
	if (r != 0)
		fail_msg("\"%s\" was refused", endpoint);
	assert_string_equal(url, expected);
}

static void assert_url(const char *endpoint, const char *expected)
{
	assert_url_of(endpoint, QUEUE_METRICS, expected);
	if (!expected)
		assert_url_of(endpoint, QUEUE_LOGS, NULL);
}

static void the_metrics_path_is_appended_to_a_base_url(void **state)
{
	assert_url("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics");
	assert_url("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/metrics");
	assert_url("https://otlp.example.com", "https://otlp.example.com/v1/metrics");
	assert_url("https://example.com/tenants/a-1", "https://example.com/tenants/a-1/v1/metrics");
	assert_url("http://vm:8428/opentelemetry///", "http://vm:8428/opentelemetry/v1/metrics");
	assert_url("HTTP://collector:1", "HTTP://collector:1/v1/metrics");
	assert_url("http://[::1]:4318", "http://[::1]:4318/v1/metrics");
	assert_url("http://[fe80::1%25eth0]", "http://[fe80::1%25eth0]/v1/metrics");
}

static void a_path_that_ends_in_the_metrics_path_is_kept(void **state)
{
	assert_url("http://h:1/v1/metrics", "http://h:1/v1/metrics");
	assert_url("http://h:1/v1/metrics/", "http://h:1/v1/metrics");
	assert_url("http://h:1/a/v1/metrics", "http://h:1/a/v1/metrics");
	assert_url("http://h:1/av1/metrics", "http://h:1/av1/metrics/v1/metrics");
	assert_url("http://h:1/v1/metrics/a", "http://h:1/v1/metrics/a/v1/metrics");
	assert_url("http://metrics", "http://metrics/v1/metrics");
}

static void logs_have_a_path_beside_that_of_the_metrics(void **state)
{
	assert_url_of("http://127.0.0.1:4318", QUEUE_LOGS, "http://127.0.0.1:4318/v1/logs");
	assert_url_of("https://example.com/tenants/a-1/", QUEUE_LOGS, "https://example.com/tenants/a-1/v1/logs");
	assert_url_of("http://h:1/v1/metrics", QUEUE_LOGS, "http://h:1/v1/logs");
	assert_url_of("http://h:1/v1/metrics/", QUEUE_LOGS, "http://h:1/v1/logs");
	assert_url_of("http://vm:8428/opentelemetry/v1/metrics", QUEUE_LOGS, "http://vm:8428/opentelemetry/v1/logs");
	assert_url_of("http://h:1/av1/metrics", QUEUE_LOGS, "http://h:1/av1/metrics/v1/logs");
	assert_url_of("http://h:1/v1/logs", QUEUE_LOGS, "http://h:1/v1/logs");
	assert_url_of("http://h:1/a/v1/logs", QUEUE_METRICS, "http://h:1/a/v1/metrics");
	assert_url_of("http://logs", QUEUE_LOGS, "http://logs/v1/logs");
	assert_url_of("http://v1/logs", QUEUE_LOGS, "http://v1/logs/v1/logs"); /* v1 is a host */
}

static void other_schemes_are_refused(void **state)
{
	const char *const bad[] = {
	    "",        "/",      "collector:4318", "//collector", "ftp://h",       "file:///etc/passwd",
	    "http:/h", "http:h", "unix:/run/x",    " http://h",   "grpc://h:4317", "httpss://h"};

	for (size_t at = 0; at < ARRAY_SIZE(bad); at++)
		assert_url(bad[at], NULL);
}

static void users_queries_and_fragments_are_refused(void **state)
{
	const char *const bad[] = {"http://user@h",    "http://user:secret@h/", "http://:x@h", "http://h/?token=1",
				   "http://h?token=1", "http://h/#a",           "http://h#a"};

	for (size_t at = 0; at < ARRAY_SIZE(bad); at++)
		assert_url(bad[at], NULL);
}

static void malformed_hosts_and_ports_are_refused(void **state)
{
	const char *const bad[] = {
	    "http://",         "http:///v1/metrics", "http://:4318",  "http://h:",        "http://h:0",
	    "http://h:65536",  "http://h:123456",    "http://h:4x",   "http://h:-1",      "http://h:1:2",
	    "http://::1:4318", "http://[]",          "http://[::1",   "http://[::1]4318", "http://[::1]:",
	    "http://[x]",      "http://h h",         "http://h/a b",  "http://h/\n",      "http://h\r\nX: y",
	    "http://h\\@evil", "http://h/\"",        "http://h/\x80", "http://h\x7f",     "http://a,b"};

	for (size_t at = 0; at < ARRAY_SIZE(bad); at++)
		assert_url(bad[at], NULL);
	assert_url("http://h:65535", "http://h:65535/v1/metrics");
}

/* ---- answers: OTLP 1.5 "Retryable Response Codes", and the cases of the header ---- */

static void outcomes_follow_the_protocol(void **state)
{
	static const struct {
		long status;
		enum ship_outcome compressed, plain;
	} cases[] = {
	    {200, SHIP_SENT, SHIP_SENT},
	    {202, SHIP_SENT, SHIP_SENT},
	    {204, SHIP_SENT, SHIP_SENT},
	    {301, SHIP_REJECTED, SHIP_REJECTED},
	    {302, SHIP_REJECTED, SHIP_REJECTED},
	    {308, SHIP_REJECTED, SHIP_REJECTED},
	    {400, SHIP_REJECTED, SHIP_REJECTED},
	    {401, SHIP_REJECTED, SHIP_REJECTED},
	    {403, SHIP_REJECTED, SHIP_REJECTED},
	    {404, SHIP_REJECTED, SHIP_REJECTED},
	    {408, SHIP_REJECTED, SHIP_REJECTED},
	    {413, SHIP_TOO_LARGE, SHIP_TOO_LARGE},
	    {415, SHIP_UNCOMPRESSED, SHIP_REJECTED},
	    {429, SHIP_RETRY, SHIP_RETRY},
	    {500, SHIP_REJECTED, SHIP_REJECTED},
	    {501, SHIP_REJECTED, SHIP_REJECTED},
	    {502, SHIP_RETRY, SHIP_RETRY},
	    {503, SHIP_RETRY, SHIP_RETRY},
	    {504, SHIP_RETRY, SHIP_RETRY},
	    {999, SHIP_REJECTED, SHIP_REJECTED},
	};

	for (size_t at = 0; at < ARRAY_SIZE(cases); at++) {
		assert_int_equal(ship_outcome_of(QUEUE_METRICS, cases[at].status, true, at % 2), cases[at].compressed);
		assert_int_equal(ship_outcome_of(QUEUE_METRICS, cases[at].status, false, at % 2), cases[at].plain);
	}
}

static void a_receiver_may_take_metrics_only(void **state)
{
	for (long status = 100; status < 1000; status++) {
		for (int bits = 0; bits < 4; bits++) {
			bool compressed = bits & 1, taken = bits & 2;
			bool none = status == 404 || status == 405 || status == 501 || (status == 400 && !taken);

			assert_int_equal(ship_outcome_of(QUEUE_LOGS, status, compressed, taken),
					 none ? SHIP_UNSUPPORTED
					      : ship_outcome_of(QUEUE_METRICS, status, compressed, taken));
		}
	}
}

static void hints_say_what_an_operator_should_look_at(void **state)
{
	assert_non_null(strstr(ship_status_hint(404), "path"));
	assert_non_null(strstr(ship_status_hint(401), "credentials"));
	assert_non_null(strstr(ship_status_hint(403), "credentials"));
	assert_non_null(strstr(ship_status_hint(302), "redirect"));
	assert_non_null(strstr(ship_status_hint(413), "too large"));
	assert_int_equal(ship_trouble_of(401), ship_trouble_of(403));
	assert_int_not_equal(ship_trouble_of(404), ship_trouble_of(400));
	for (long status = 0; status < 1000; status++) {
		assert_non_null(ship_status_hint(status));
		assert_in_range(ship_trouble_of(status), 0, SHIP_TROUBLES - 1);
	}
}

/* ---- Retry-After ---- */

/* Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110. */
#define EXAMPLE UINT64_C(784111777)

static void assert_wait(const char *value, uint64_t now_s, uint64_t expected_s)
{
	uint64_t ns = 1;

	if (ship_retry_after(value, now_s * S + 999, &ns) != 0)
		fail_msg("\"%s\" was refused", value);
	assert_int_equal(ns, expected_s * S);
}

static void retry_after_takes_seconds(void **state)
{
	assert_wait("0", EXAMPLE, 0);
	assert_wait("1", EXAMPLE, 1);
	assert_wait("120", EXAMPLE, 120);
	assert_wait("007", EXAMPLE, 7);
}

static void retry_after_takes_the_three_dates_of_http(void **state)
{
	assert_wait("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE - 90, 90);
	assert_wait("Sunday, 06-Nov-94 08:49:37 GMT", EXAMPLE - 90, 90);
	assert_wait("Sun Nov  6 08:49:37 1994", EXAMPLE - 90, 90);
	assert_wait("Fri, 27 Nov 2026 12:00:00 GMT", 1795780800 - 5, 5); /* date -ud @1795780800 */
	assert_wait("Friday, 27-Nov-26 12:00:00 GMT", 1795780800 - 5, 5);
	assert_wait("Thu, 29 Feb 2024 23:59:59 GMT", 1709251199 - 1, 1);
}

static void a_date_in_the_past_is_no_wait(void **state)
{
	assert_wait("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE, 0);
	assert_wait("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE + 1000000000, 0);
	assert_wait("Sunday, 06-Nov-94 08:49:37 GMT", EXAMPLE + 1000000000, 0); /* not 2094 */
}

static void retry_after_is_capped_at_five_minutes(void **state)
{
	assert_wait("300", EXAMPLE, 300);
	assert_wait("301", EXAMPLE, 300);
	assert_wait("86400", EXAMPLE, 300);
	assert_wait("99999999999999999999999999999999999999", EXAMPLE, 300);
	assert_wait("Sun, 06 Nov 1994 08:49:37 GMT", EXAMPLE - 100000, 300);
	assert_wait("Fri, 31 Dec 9999 23:59:59 GMT", EXAMPLE, 300);
}

static void nonsense_in_retry_after_is_refused(void **state)
{
	const char *const bad[] = {"",
				   " ",
				   "-1",
				   "1.5",
				   "1s",
				   "1 ",
				   "soon",
				   "Sun, 06 Nov 1994",
				   "Sun, 06 Xyz 1994 08:49:37 GMT",
				   "Sun, 32 Nov 1994 08:49:37 GMT",
				   "Sun, 06 Nov 1994 24:49:37 GMT",
				   "Sun, 06 Nov 1994 08:60:37 GMT",
				   "Sun, 06 Nov 1994 08:49:61 GMT",
				   "Sun, 06 Nov 1994 08:49:37 CET",
				   "Sun, 06 Nov 1994 08:49:37 GMT, 5",
				   "Sun, 06 ovD 1994 08:49:37 GMT",
				   "Sun Nov  6 08:49:37 1994x"};
	uint64_t ns = 42;

	for (size_t at = 0; at < ARRAY_SIZE(bad); at++)
		if (ship_retry_after(bad[at], EXAMPLE * S, &ns) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[at]);
	assert_int_equal(ns, 42);
}

/* ---- backoff ---- */

static void backoff_doubles_from_min_to_max_with_jitter(void **state)
{
	/* random 0 is the upper end of the span, span / 2 the lower end */
	static const uint64_t upper_s[] = {2, 4, 8, 16, 32, 60, 60};

	for (uint64_t failures = 1; failures <= ARRAY_SIZE(upper_s); failures++) {
		uint64_t upper = upper_s[failures - 1] * S;

		assert_int_equal(ship_backoff_ns(failures, S, 60 * S, 0), upper);
		assert_int_equal(ship_backoff_ns(failures, S, 60 * S, upper / 2), upper / 2);
	}
}

static void backoff_never_leaves_its_bounds(void **state)
{
	uint64_t random = 88172645463325252;

	for (int at = 0; at < 100000; at++) {
		uint64_t wait;

		random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* xorshift64 */
		wait = ship_backoff_ns(random % 100, S, 60 * S, random);
		assert_in_range(wait, S, 60 * S);
	}
	assert_in_range(ship_backoff_ns(UINT64_MAX, S, 60 * S, UINT64_MAX), 30 * S, 60 * S);
	assert_int_equal(ship_backoff_ns(5, S, S, 7), S);
	assert_true(ship_backoff_ns(200, 1, UINT64_MAX, 0) >= UINT64_MAX / 2);
}

static void backoff_spreads_a_fleet(void **state)
{
	int lower = 0;

	/* Evenly spread random numbers give evenly spread waits: half of them below the middle of [30 s, 60 s]. */
	for (uint64_t at = 0; at < 1000; at++)
		lower += ship_backoff_ns(10, S, 60 * S, at * 30 * S / 1000) < 45 * S;
	assert_in_range(lower, 480, 520);
}

/* ---- log limit ---- */

static void a_kind_is_logged_once_a_minute_with_the_number_left_out(void **state)
{
	struct ship_limit l = {0};
	uint64_t left = 99;

	assert_true(ship_limit_pass(&l, 0, &left)); /* even at time zero */
	assert_int_equal(left, 0);
	assert_false(ship_limit_pass(&l, 1, &left));
	assert_false(ship_limit_pass(&l, 60 * S - 1, &left));
	assert_true(ship_limit_pass(&l, 60 * S, &left));
	assert_int_equal(left, 2);
	assert_false(ship_limit_pass(&l, 61 * S, &left));
	assert_true(ship_limit_pass(&l, 1000 * S, &left));
	assert_int_equal(left, 1);
	assert_true(ship_limit_pass(&l, 2000 * S, &left));
	assert_int_equal(left, 0);
}

/* ---- text ---- */

static void headers_that_would_smuggle_are_refused(void **state)
{
	assert_true(ship_header_valid("Authorization", "Bearer abc.def-_~+/="));
	assert_true(ship_header_valid("X-Scope-OrgID", ""));
	assert_true(ship_header_valid("x", "a\tb \xc3\xa4"));
	assert_false(ship_header_valid("", "x"));
	assert_false(ship_header_valid("X Y", "x"));
	assert_false(ship_header_valid("X:", "x"));
	assert_false(ship_header_valid("X\r\nY", "x"));
	assert_false(ship_header_valid("X", "a\r\nY: b"));
	assert_false(ship_header_valid("X", "a\nb"));
	assert_false(ship_header_valid("X", "\x7f"));
}

static void foreign_text_cannot_forge_log_lines(void **state)
{
	char text[] = "a\nfaultd: b\x1b[1m\x7f\xc3\xa4 ~";

	ship_make_printable(text);
	assert_string_equal(text, "a?faultd: b?[1m??? ~");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_metrics_path_is_appended_to_a_base_url),
	    cmocka_unit_test(a_path_that_ends_in_the_metrics_path_is_kept),
	    cmocka_unit_test(logs_have_a_path_beside_that_of_the_metrics),
	    cmocka_unit_test(other_schemes_are_refused),
	    cmocka_unit_test(users_queries_and_fragments_are_refused),
	    cmocka_unit_test(malformed_hosts_and_ports_are_refused),
	    cmocka_unit_test(outcomes_follow_the_protocol),
	    cmocka_unit_test(a_receiver_may_take_metrics_only),
	    cmocka_unit_test(hints_say_what_an_operator_should_look_at),
	    cmocka_unit_test(retry_after_takes_seconds),
	    cmocka_unit_test(retry_after_takes_the_three_dates_of_http),
	    cmocka_unit_test(a_date_in_the_past_is_no_wait),
	    cmocka_unit_test(retry_after_is_capped_at_five_minutes),
	    cmocka_unit_test(nonsense_in_retry_after_is_refused),
	    cmocka_unit_test(backoff_doubles_from_min_to_max_with_jitter),
	    cmocka_unit_test(backoff_never_leaves_its_bounds),
	    cmocka_unit_test(backoff_spreads_a_fleet),
	    cmocka_unit_test(a_kind_is_logged_once_a_minute_with_the_number_left_out),
	    cmocka_unit_test(headers_that_would_smuggle_are_refused),
	    cmocka_unit_test(foreign_text_cannot_forge_log_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
