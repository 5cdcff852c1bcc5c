/* SPDX-License-Identifier: Apache-2.0 */
/* What the scrape endpoint answers, over real sockets. */
#include "tests/unit/scrape-fixture.h"

/* ---- answers ---- */

static void metrics_come_as_text_and_count_as_reported(void **state)
{
	struct server *s = *state;
	struct reply r;

	ask(s, GET_AND_CLOSE("/metrics"), &r);
	assert_int_equal(r.status, 200);
	assert_header(&r, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
	assert_header(&r, "Vary", "Accept, Accept-Encoding");
	assert_header(&r, "Content-Encoding", NULL);
	assert_int_equal(strncmp(r.body, "# HELP faultd_page_faults_total ", 32), 0);
	assert_int_equal(s->self.scrapes, 1);
	assert_int_equal(s->self.scrape_bytes, r.body_len);
	assert_int_equal(s->reported, 1);
	assert_int_equal(s->reported_deaths, 42);
	done_reply(&r);
}

static void the_accept_header_chooses_openmetrics_even_in_several_lines(void **state)
{
	struct server *s = *state;
	struct reply r;

	ask(s, "GET /metrics HTTP/1.1\r\nHost: h\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n", &r);
	assert_header(&r, "Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8");
	assert_string_equal(r.body + r.body_len - 7, "\n# EOF\n");
	done_reply(&r);
	ask(s, "GET /metrics HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\nAccept: application/openmetrics-text\r\n\r\n",
	    &r);
	assert_header(&r, "Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8");
	done_reply(&r);
}

static void process_metrics_are_those_of_this_process(void **state)
{
	struct server *s = *state;
	struct reply r;
	const char *start;
	double age;

	ask(s, GET("/metrics"), &r);
	start = strstr(r.body, "\nprocess_start_time_seconds ");
	assert_non_null(start);
	age = (double)time(NULL) - strtod(start + strlen("\nprocess_start_time_seconds "), NULL);
	assert_true(age > -2 && age < 3600);
	assert_non_null(strstr(r.body, "\nprocess_cpu_seconds_total "));
	assert_non_null(strstr(r.body, "\nprocess_resident_memory_bytes "));
	assert_non_null(strstr(r.body, "\nprocess_virtual_memory_bytes "));
	assert_non_null(strstr(r.body, "\nprocess_open_fds "));
	assert_non_null(strstr(r.body, "\nprocess_max_fds "));
	done_reply(&r);
}

static void the_figures_of_the_process_are_true(void **state)
{
	struct process_stats p = {0};
	struct rlimit limit;

	process_read(&p);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(p.max_fds, limit.rlim_cur);
	assert_int_equal(p.open_fds, open_descriptors() - 3); /* ".", ".." and the one that looks */
	assert_true(p.resident_bytes > 100000 && p.resident_bytes < p.virtual_bytes);
	assert_true(p.cpu_ns > 0);
	p.start_unix_ns = 1;
	process_read(&p);
	assert_int_equal(p.start_unix_ns, 1);
}

static void head_gives_the_headers_alone_and_reports_nothing(void **state)
{
	struct server *s = *state;
	struct reply r = {0};
	int fd = dial(s);
	char *length;

	say(s, fd, "HEAD /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	hear_kind(s, fd, &r, true);
	assert_int_equal(r.status, 200);
	length = header_of(r.head, "Content-Length");
	assert_non_null(length);
	assert_int_equal(strtoul(length, NULL, 10), s->self.scrape_bytes);
	free(length);
	hear_end(s, fd, &r);
	assert_int_equal(r.raw.len, 0);
	assert_int_equal(s->reported, 0);
	assert_int_equal(s->self.scrapes, 0);
	done_reply(&r);
	close(fd);
}

static void other_paths_are_not_found_and_not_echoed(void **state)
{
	static const char *const requests[] = {GET("/secret<script>"), GET("/metrics/"), GET("/metricsx"), GET("//"),
					       "POST /secret HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"};
	struct server *s = *state;
	struct reply r;

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		ask(s, requests[i], &r);
		assert_int_equal(r.status, 404);
		assert_header(&r, "Content-Type", "text/plain; charset=utf-8");
		assert_null(strstr(r.body, "secret"));
		done_reply(&r);
	}
}

static void other_methods_are_refused_with_allow(void **state)
{
	static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW", "get"};
	static const char *const paths[] = {"/", "/metrics", "/healthz"};
	struct server *s = *state;
	struct reply r;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		char request[128];

		snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody",
			 methods[i], paths[i % 3]);
		ask(s, request, &r);
		assert_int_equal(r.status, 405);
		assert_header(&r, "Allow", "GET, HEAD");
		done_reply(&r);
	}
	assert_int_equal(s->reported, 0);
}

static void a_query_string_changes_nothing(void **state)
{
	struct reply r;

	ask(*state, GET("/metrics?x=/healthz&y=%00"), &r);
	assert_int_equal(r.status, 200);
	assert_int_equal(strncmp(r.body, "# HELP ", 7), 0);
	done_reply(&r);
}

static void the_landing_page_links_and_loads_nothing(void **state)
{
	struct reply r;

	ask(*state, GET("/"), &r);
	assert_int_equal(r.status, 200);
	assert_header(&r, "Content-Type", "text/html; charset=utf-8");
	assert_non_null(strstr(r.body, "faultd " FAULTD_VERSION));
	assert_non_null(strstr(r.body, "href=\"/metrics\""));
	assert_non_null(strstr(r.body, "href=\"/healthz\""));
	assert_null(strstr(r.body, "src="));
	assert_null(strstr(r.body, "http:"));
	done_reply(&r);
}

static void health_is_told_with_its_reason(void **state)
{
	struct server *s = *state;
	struct reply r;

	ask(s, GET("/healthz"), &r);
	assert_int_equal(r.status, 200);
	assert_string_equal(r.body, "ok\n");
	done_reply(&r);
	s->illness = "the counters were not read for 10 s";
	ask(s, GET("/healthz"), &r);
	assert_int_equal(r.status, 503);
	assert_string_equal(r.body, "the counters were not read for 10 s\n");
	done_reply(&r);
}

static void without_a_snapshot_a_scrape_fails_and_says_when_to_come_again(void **state)
{
	struct server *s = *state;
	struct reply r;

	s->snapshot_error = -EIO;
	ask(s, GET("/metrics"), &r);
	assert_int_equal(r.status, 503);
	assert_header(&r, "Retry-After", "1");
	assert_header(&r, "Content-Type", "text/plain; charset=utf-8");
	assert_int_equal(s->self.scrapes_failed, 1);
	assert_int_equal(s->self.scrapes, 0);
	assert_int_equal(s->reported, 0);
	done_reply(&r);
	s->snapshot_error = 0;
	assert_serves(s);
}

/* ---- compression ---- */

static char *gunzip(const char *bytes, size_t n, size_t max)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n};
	char *text = calloc(1, max + 1);

	assert_non_null(text);
	z.next_out = (Bytef *)text;
	z.avail_out = (uInt)max;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK); /* takes gzip alone */
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	assert_int_equal(inflateEnd(&z), Z_OK);
	return text;
}

static void gzip_is_used_where_it_is_wanted(void **state)
{
	struct server *s = *state;
	struct reply r;
	char *text;

	ask(s, "GET /metrics HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n", &r);
	assert_int_equal(r.status, 200);
	assert_header(&r, "Content-Encoding", "gzip");
	assert_header(&r, "Vary", "Accept, Accept-Encoding");
	assert_header(&r, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
	assert_true(r.body_len < s->self.scrape_bytes / 2);
	text = gunzip(r.body, r.body_len, s->self.scrape_bytes);
	assert_int_equal(strlen(text), s->self.scrape_bytes);
	assert_int_equal(strncmp(text, "# HELP faultd_page_faults_total ", 32), 0);
	free(text);
	done_reply(&r);

	ask(s, "GET /metrics HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip;q=0, *\r\n\r\n", &r);
	assert_header(&r, "Content-Encoding", NULL);
	assert_int_equal(r.body_len, s->self.scrape_bytes);
	done_reply(&r);
	ask(s, "GET /healthz HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n", &r);
	assert_header(&r, "Content-Encoding", NULL);
	done_reply(&r);
}

static void what_gzip_packs_zlib_unpacks(void **state)
{
	static const size_t sizes[] = {0, 1, 1000, 300000};
	char *in = malloc(300000);

	assert_non_null(in);
	for (size_t i = 0; i < 300000; i++)
		in[i] = (char)(i * 2654435761u >> 13); /* hard to pack */
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *packed;
		size_t n;
		char *out;

		assert_int_equal(gzip_compress(sizes[i] ? in : NULL, sizes[i], &packed, &n), 0);
		out = gunzip((char *)packed, n, sizes[i]);
		assert_memory_equal(out, in, sizes[i]);
		free(out);
		free(packed);
	}
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WITH_SERVER(metrics_come_as_text_and_count_as_reported),
	    WITH_SERVER(the_accept_header_chooses_openmetrics_even_in_several_lines),
	    WITH_SERVER(process_metrics_are_those_of_this_process),
	    cmocka_unit_test(the_figures_of_the_process_are_true),
	    WITH_SERVER(head_gives_the_headers_alone_and_reports_nothing),
	    WITH_SERVER(other_paths_are_not_found_and_not_echoed),
	    WITH_SERVER(other_methods_are_refused_with_allow),
	    WITH_SERVER(a_query_string_changes_nothing),
	    WITH_SERVER(the_landing_page_links_and_loads_nothing),
	    WITH_SERVER(health_is_told_with_its_reason),
	    WITH_SERVER(without_a_snapshot_a_scrape_fails_and_says_when_to_come_again),
	    WITH_SERVER(gzip_is_used_where_it_is_wanted),
	    cmocka_unit_test(what_gzip_packs_zlib_unpacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
