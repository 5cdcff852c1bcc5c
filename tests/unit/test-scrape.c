/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scrape endpoint over real sockets. Server and clients share the test's thread: the clients never block, and the
 * event loop runs a step whenever one of them would have to wait.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/strbuf.h"
#include "daemon/sink/gzip.h"
#include "daemon/sink/process.h"
#include "daemon/sink/scrape.h"

#define PATIENCE_NS (20 * NSEC_PER_SEC) /* valgrind is slow */

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define GET_AND_CLOSE(path) "GET " path " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

/* ---- server ---- */

struct server {
	sd_event *event;
	struct scrape *scrape;
	struct aggregate *aggregate;
	struct self_stats self;
	struct scrape_handlers handlers;
	int snapshot_error;
	const char *illness;
	unsigned reported;
	uint64_t reported_deaths;
	char folder[64];
	char socket_path[96];
};

static int take_snapshot(struct snapshot *ret, void *userdata)
{
	static const struct probe_info probe = {.probe = "page_faults", .backend = "tracepoint"};
	struct server *s = userdata;

	if (s->snapshot_error)
		return s->snapshot_error;
	*ret = (struct snapshot){.now_ns = clock_monotonic_ns(),
				 .now_unix_ns = clock_realtime_ns(),
				 .aggregate = s->aggregate,
				 .deaths = 42,
				 .self = &s->self,
				 .probes = &probe,
				 .n_probes = 1};
	return 0;
}

static void note_reported(uint64_t deaths, void *userdata)
{
	struct server *s = userdata;

	s->reported++;
	s->reported_deaths = deaths;
}

static int tell_health(const char **ret_reason, void *userdata)
{
	struct server *s = userdata;

	if (!s->illness)
		return 0;
	*ret_reason = s->illness;
	return -EIO;
}

static void add_cgroups(struct server *s, size_t n)
{
	uint64_t growth[FAULT_CLASSES];

	for (size_t i = 0; i < FAULT_CLASSES; i++)
		growth[i] = i + 1;
	for (size_t i = 1; i <= n; i++) {
		struct identity *id = calloc(1, sizeof(*id));
		bool over_limit;

		assert_non_null(id);
		assert_true(asprintf(&id->label, "/%0200zu", i) > 0);
		id->path = strdup(id->label);
		id->unit = strdup("");
		id->slice = strdup("");
		id->runtime = strdup("");
		id->container_id = strdup("");
		id->pod_uid = strdup("");
		assert_int_equal(aggregate_bind(s->aggregate, i, id, &over_limit), 0);
		aggregate_faults(s->aggregate, i, growth);
	}
}

static int open_server(struct server *s, const char *address, uint32_t max_concurrent)
{
	char *const listen[] = {(char *)(uintptr_t)address};

	return scrape_new(s->event, listen, 1, max_concurrent, &s->handlers, &s->scrape);
}

static int make_bare(void **state)
{
	static const uint64_t windows[] = {10 * NSEC_PER_SEC};
	const struct aggregate_options options = {.max_cgroups = 2000,
						  .max_ids = 2000,
						  .interval_ns = NSEC_PER_SEC,
						  .windows_ns = windows,
						  .n_windows = 1,
						  .sinks = AGGREGATE_SINK_SCRAPE,
						  .linger_ns = NSEC_PER_SEC};
	struct server *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	assert_int_equal(sd_event_new(&s->event), 0);
	assert_int_equal(aggregate_new(&options, &s->aggregate), 0);
	s->handlers = (struct scrape_handlers){.snapshot = take_snapshot,
					       .reported = note_reported,
					       .health = tell_health,
					       .self = &s->self,
					       .userdata = s};
	strcpy(s->folder, P_tmpdir "/test-scrape-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	snprintf(s->socket_path, sizeof(s->socket_path), "%s/metrics.sock", s->folder);
	*state = s;
	return 0;
}

static int make_server(void **state)
{
	make_bare(state);
	assert_int_equal(open_server(*state, "127.0.0.1:0", 4), 0);
	return 0;
}

/* Several megabytes: more than the sockets between server and client buffer. */
static int make_large_server(void **state)
{
	make_server(state);
	add_cgroups(*state, 1000);
	return 0;
}

static int free_server(void **state)
{
	struct server *s = *state;

	s->scrape = scrape_free(s->scrape);
	sd_event_unref(s->event);
	aggregate_free(s->aggregate);
	unlink(s->socket_path);
	rmdir(s->folder);
	free(s);
	return 0;
}

static void step(struct server *s)
{
	assert_true(sd_event_run(s->event, 1000) >= 0);
}

static void run_for(struct server *s, uint64_t ns)
{
	uint64_t end = clock_monotonic_ns() + ns;

	while (clock_monotonic_ns() < end)
		step(s);
}

/* ---- clients ---- */

static int dial_tcp(const char *address, int receive_buffer)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	a.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	if (receive_buffer)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer)), 0);
	assert_true(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS);
	return fd;
}

static int dial(struct server *s)
{
	return dial_tcp(scrape_address(s->scrape, 0), 0);
}

static int dial_slow(struct server *s)
{
	return dial_tcp(scrape_address(s->scrape, 0), 4096);
}

static int unix_client(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int dial_unix(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = unix_client();

	strcpy(a.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static void say_bytes(struct server *s, int fd, const char *bytes, size_t n)
{
	uint64_t end = clock_monotonic_ns() + PATIENCE_NS;

	while (n > 0) {
		ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return; /* the server has closed, which may be what the test wants */
		if (sent > 0) {
			bytes += sent;
			n -= (size_t)sent;
		}
		step(s);
		assert_true(clock_monotonic_ns() < end);
	}
}

static void say(struct server *s, int fd, const char *text)
{
	say_bytes(s, fd, text, strlen(text));
}

/* What came from the server; `rest` is kept for the next answer on the same connection. */
struct reply {
	struct strbuf raw;
	int status;
	char *head; /* status line and headers, in raw */
	char *body;
	size_t body_len;
	bool closed;
};

static void done_reply(struct reply *r)
{
	free(r->head);
	free(r->body);
	strbuf_done(&r->raw);
	*r = (struct reply){0};
}

/* Reads what is there; false once the server has closed. */
static bool drain(int fd, struct strbuf *raw)
{
	char bytes[65536];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		strbuf_add(raw, bytes, (size_t)n);
	return n < 0 && errno == EAGAIN;
}

/* The value of a header, to be freed; NULL if it is not there. */
static char *header_of(const char *head, const char *name)
{
	char line[128];
	const char *at;

	snprintf(line, sizeof(line), "\r\n%s: ", name);
	at = strcasestr(head, line);
	if (!at)
		return NULL;
	at += strlen(line);
	return strndup(at, strcspn(at, "\r"));
}

/* Cuts one whole answer off the front of raw; false if it is not whole yet. */
static bool parse_reply(struct reply *r, bool head_only)
{
	char *end = r->raw.data ? strstr(r->raw.data, "\r\n\r\n") : NULL, *length;
	size_t head_len, body_len;

	if (!end)
		return false;
	head_len = (size_t)(end - r->raw.data) + 4;
	free(r->head);
	r->head = strndup(r->raw.data, head_len);
	length = header_of(r->head, "Content-Length");
	body_len = length && !head_only ? strtoul(length, NULL, 10) : 0;
	free(length);
	if (r->raw.len < head_len + body_len)
		return false;
	free(r->body);
	r->body = calloc(1, body_len + 1);
	memcpy(r->body, r->raw.data + head_len, body_len);
	r->body_len = body_len;
	memmove(r->raw.data, r->raw.data + head_len + body_len, r->raw.len - head_len - body_len + 1);
	r->raw.len -= head_len + body_len;
	r->status = atoi(r->head + strlen("HTTP/1.1 "));
	return true;
}

/* Waits for one answer; status 0 if the server closed without one. */
static void hear_kind(struct server *s, int fd, struct reply *r, bool head_only)
{
	uint64_t end = clock_monotonic_ns() + PATIENCE_NS;

	r->status = 0;
	while (!parse_reply(r, head_only)) {
		if (r->closed)
			return;
		step(s);
		r->closed = !drain(fd, &r->raw);
		assert_true(clock_monotonic_ns() < end);
	}
}

static void hear(struct server *s, int fd, struct reply *r)
{
	hear_kind(s, fd, r, false);
}

/* Waits until the server closes; what it said until then stays in raw. */
static void hear_end(struct server *s, int fd, struct reply *r)
{
	uint64_t end = clock_monotonic_ns() + PATIENCE_NS;

	while (drain(fd, &r->raw)) {
		step(s);
		assert_true(clock_monotonic_ns() < end);
	}
	r->closed = true;
}

/* One request on a connection of its own. */
static void ask(struct server *s, const char *request, struct reply *r)
{
	int fd = dial(s);

	*r = (struct reply){0};
	say(s, fd, request);
	hear(s, fd, r);
	close(fd);
}

static void assert_header(const struct reply *r, const char *name, const char *value)
{
	char *is = header_of(r->head, name);

	if (value)
		assert_non_null(is);
	else
		assert_null(is);
	if (value)
		assert_string_equal(is, value);
	free(is);
}

static void assert_serves(struct server *s)
{
	struct reply r;

	ask(s, GET("/metrics"), &r);
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.body, "\nfaultd_build_info{"));
	done_reply(&r);
}

static size_t open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

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

/* ---- connections ---- */

static void a_connection_serves_one_request_after_another(void **state)
{
	struct server *s = *state;
	struct reply r = {0};
	int fd = dial(s);

	for (int i = 0; i < 3; i++) {
		say(s, fd,
		    i == 1 ? "POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello" : GET("/metrics"));
		hear(s, fd, &r);
		assert_int_equal(r.status, i == 1 ? 405 : 200);
		assert_false(r.closed);
	}
	assert_int_equal(s->reported, 2);
	done_reply(&r);
	close(fd);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
	struct server *s = *state;
	struct reply r = {0};
	int fd = dial(s);

	say(s, fd, GET("/healthz") GET("/metrics") GET("/nothing") GET("/metrics"));
	for (int i = 0; i < 4; i++) {
		hear(s, fd, &r);
		assert_int_equal(r.status, i == 2 ? 404 : 200);
		assert_int_equal(strncmp(r.body, i == 0 ? "ok\n" : i == 2 ? "not" : "# H", 3), 0);
	}
	run_for(s, 20 * NSEC_PER_MSEC);
	assert_int_equal(s->reported, 2);
	done_reply(&r);
	close(fd);
}

static void too_many_scrapes_at_once_get_503_until_one_is_done(void **state)
{
	struct server *s = *state;
	struct reply slow = {0}, r;
	int fd = dial_slow(s);

	scrape_set_max_concurrent(s->scrape, 1);
	say(s, fd, GET("/metrics"));
	run_for(s, 50 * NSEC_PER_MSEC);
	ask(s, GET("/metrics"), &r);
	assert_int_equal(r.status, 503);
	assert_header(&r, "Retry-After", "1");
	assert_header(&r, "Content-Type", "text/plain; charset=utf-8");
	assert_int_equal(s->self.scrapes_busy, 1);
	assert_int_equal(s->reported, 0);
	done_reply(&r);
	ask(s, GET("/healthz"), &r);
	assert_int_equal(r.status, 200);
	done_reply(&r);

	hear(s, fd, &slow);
	assert_int_equal(slow.status, 200);
	assert_true(slow.body_len > 4000000);
	assert_int_equal(s->reported, 1);
	assert_serves(s);
	assert_int_equal(s->reported, 2);
	done_reply(&slow);
	close(fd);
}

static void slow_and_half_open_clients_do_not_hold_up_a_scrape(void **state)
{
	static const char *const halves[] = {"", "G", "GET /metrics HTTP/1.1\r\nHost: h\r\n",
					     "POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nbo"};
	struct server *s = *state;
	int fds[7];
	size_t n = 0;

	for (; n < 3; n++) {
		fds[n] = dial_slow(s);
		say(s, fds[n], GET("/metrics"));
	}
	for (size_t i = 0; i < 4; i++) {
		fds[n] = dial(s);
		say(s, fds[n++], halves[i]);
	}
	run_for(s, 20 * NSEC_PER_MSEC);
	assert_int_equal(s->reported, 0);
	assert_serves(s);
	assert_int_equal(s->reported, 1);
	while (n > 0)
		close(fds[--n]);
}

static void a_client_that_leaves_midway_gives_its_place_back(void **state)
{
	struct server *s = *state;
	int fd = dial_slow(s);

	scrape_set_max_concurrent(s->scrape, 1);
	say(s, fd, GET("/metrics"));
	run_for(s, 20 * NSEC_PER_MSEC);
	close(fd);
	run_for(s, 20 * NSEC_PER_MSEC);
	assert_int_equal(s->reported, 0);
	assert_int_equal(s->self.scrapes_failed, 1);
	assert_serves(s);
	assert_int_equal(s->self.scrapes_busy, 0);
}

/* Whatever a connection does meanwhile, a byte now and then for one, its time for one request is bounded. */
static void connections_that_finish_nothing_are_closed_at_their_deadline(void **state)
{
	struct server *s = *state;
	int slow = dial_slow(s), idle = dial(s), dripping = dial(s);
	struct reply r = {0};

	scrape_set_deadline(s->scrape, 200 * NSEC_PER_MSEC);
	say(s, slow, GET("/metrics"));
	for (int i = 0; i < 40; i++) {
		say(s, dripping, "G");
		run_for(s, 10 * NSEC_PER_MSEC);
	}
	assert_int_equal(s->self.scrapes_failed, 1);
	hear_end(s, idle, &r);
	assert_int_equal(r.raw.len, 0);
	hear_end(s, dripping, &r);
	done_reply(&r);
	close(slow);
	close(idle);
	close(dripping);
	scrape_set_deadline(s->scrape, PATIENCE_NS);
	assert_serves(s);
}

static void a_connection_in_use_outlives_the_deadline(void **state)
{
	struct server *s = *state;
	struct reply r = {0};
	int fd = dial(s);

	scrape_set_deadline(s->scrape, 400 * NSEC_PER_MSEC);
	for (int i = 0; i < 10; i++) {
		say(s, fd, GET("/healthz"));
		hear(s, fd, &r);
		assert_int_equal(r.status, 200);
		run_for(s, 60 * NSEC_PER_MSEC);
	}
	done_reply(&r);
	close(fd);
}

static void idle_connections_beyond_the_limit_give_way(void **state)
{
	struct server *s = *state;
	int fds[150];
	size_t closed = 0;
	char byte;

	for (size_t i = 0; i < 150; i++) {
		fds[i] = dial(s);
		step(s);
	}
	assert_serves(s);
	for (size_t i = 0; i < 150; i++) {
		closed += recv(fds[i], &byte, 1, 0) >= 0 || errno != EAGAIN;
		close(fds[i]);
	}
	assert_true(closed > 80 && closed < 100);
}

static void a_connection_that_the_client_closes_is_freed_at_once(void **state)
{
	struct server *s = *state;
	size_t before = open_descriptors();

	for (int i = 0; i < 100; i++) {
		struct reply r = {0};
		int fd = dial(s);

		say(s, fd, GET("/healthz"));
		hear(s, fd, &r);
		assert_int_equal(r.status, 200);
		done_reply(&r);
		close(fd);
	}
	run_for(s, 20 * NSEC_PER_MSEC);
	assert_int_equal(open_descriptors(), before);
}

static void garbage_is_refused_and_hurts_nobody(void **state)
{
	static const char *const garbage[] = {
	    "\x16\x03\x01\x02\x01\x01\xfc\x03\x03\r\n\r\n",
	    "\r\n\r\n\r\n\r\n",
	    "GET\r\n\r\n",
	    "GET /metrics\r\n\r\n",
	    "GET /metrics HTTP/9.9\r\n\r\n",
	    "GET /metrics HTTP/1.1\r\n: x\r\nno colon\r\n\xff\xfe: \x01\r\nContent-Length: -1\r\n\r\n",
	    "GET /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
	    "GET /metrics HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n\r\n",
	    "GET /%zz%00%ff%2e%2e/ HTTP/1.1\r\nHost: h\r\nAccept: ;q=,\"\r\nAccept-Encoding: ;;,q\r\n\r\n",
	};
	struct server *s = *state;

	/* Some of it may be the begin of a request, or a good one on a connection that could serve another. */
	scrape_set_deadline(s->scrape, 200 * NSEC_PER_MSEC);
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		struct reply r = {0};
		int fd = dial(s);

		say(s, fd, garbage[i]);
		shutdown(fd, SHUT_WR);
		run_for(s, 5 * NSEC_PER_MSEC);
		hear_end(s, fd, &r);
		done_reply(&r);
		close(fd);
		assert_serves(s);
	}
}

static void headers_without_end_are_cut_off(void **state)
{
	struct server *s = *state;
	struct reply r = {0};
	int fd = dial(s);
	char *line = malloc(1000001);

	assert_non_null(line);
	memset(line, 'a', 1000000);
	line[1000000] = '\0';
	say(s, fd, "GET /metrics HTTP/1.1\r\nHost: h\r\nAccept: ");
	say(s, fd, line);
	hear_end(s, fd, &r);
	if (r.raw.len > 0)
		assert_int_equal(strncmp(r.raw.data, "HTTP/1.1 431", 12), 0);
	free(line);
	done_reply(&r);
	close(fd);
	assert_serves(s);
}

static void large_bodies_are_not_read(void **state)
{
	struct server *s = *state;
	struct reply r = {0};
	int fd = dial(s);
	char *chunk = malloc(100001);
	uint64_t begin;

	say(s, fd, "POST /metrics HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000\r\n\r\n");
	hear(s, fd, &r);
	assert_int_equal(r.status, 405);
	hear_end(s, fd, &r);
	done_reply(&r);
	close(fd);

	assert_non_null(chunk);
	memset(chunk, 'a', 100000);
	chunk[100000] = '\0';
	fd = dial(s);
	say(s, fd, "POST /metrics HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n");
	say(s, fd, chunk);
	begin = clock_monotonic_ns();
	hear_end(s, fd, &r);
	assert_true(clock_monotonic_ns() - begin < 10 * NSEC_PER_SEC); /* not by the time-out for idle connections */
	free(chunk);
	done_reply(&r);
	close(fd);
	assert_serves(s);
}

static void a_server_may_go_while_clients_wait(void **state)
{
	struct server *s = *state;
	int slow = dial_slow(s), idle = dial(s);

	say(s, slow, GET("/metrics"));
	say(s, idle, "GET /met");
	run_for(s, 10 * NSEC_PER_MSEC);
	s->scrape = scrape_free(s->scrape);
	assert_int_equal(s->reported, 0);
	close(slow);
	close(idle);
	assert_null(scrape_free(NULL));
}

/* ---- listening ---- */

static void a_unix_socket_serves_its_group_and_goes_with_the_server(void **state)
{
	struct server *s = *state;
	struct reply r = {0};
	char address[128];
	struct stat st;
	int fd;

	snprintf(address, sizeof(address), "unix:%s", s->socket_path);
	assert_int_equal(open_server(s, address, 1), 0);
	assert_string_equal(scrape_address(s->scrape, 0), address);
	assert_null(scrape_address(s->scrape, 1));
	assert_int_equal(stat(s->socket_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	fd = dial_unix(s->socket_path);
	say(s, fd, GET("/metrics"));
	hear(s, fd, &r);
	assert_int_equal(r.status, 200);
	assert_int_equal(s->reported, 1);
	done_reply(&r);
	close(fd);
	s->scrape = scrape_free(s->scrape);
	assert_int_equal(access(s->socket_path, F_OK), -1);
}

static int listen_at(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void a_stale_unix_socket_is_replaced(void **state)
{
	struct server *s = *state;
	char address[128];

	close(listen_at(s->socket_path));
	snprintf(address, sizeof(address), "unix:%s", s->socket_path);
	assert_int_equal(open_server(s, address, 1), 0);
	close(dial_unix(s->socket_path));
}

static void a_unix_socket_in_use_and_other_files_stay(void **state)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct server *s = *state;
	char address[128];
	int fd, waiting[16];
	struct stat st;
	size_t n;

	strcpy(a.sun_path, s->socket_path);
	snprintf(address, sizeof(address), "unix:%s", s->socket_path);
	fd = listen_at(s->socket_path);
	assert_int_equal(open_server(s, address, 1), -EADDRINUSE);
	close(dial_unix(s->socket_path));
	for (n = 0; n < 16 && connect(waiting[n] = unix_client(), (struct sockaddr *)&a, sizeof(a)) == 0; n++)
		;
	assert_int_equal(errno, EAGAIN); /* its queue is full: it is busy, not gone */
	assert_int_equal(open_server(s, address, 1), -EADDRINUSE);
	for (size_t i = 0; i <= n; i++)
		close(waiting[i]);
	close(fd);
	unlink(s->socket_path);

	fd = open(s->socket_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(open_server(s, address, 1), -EADDRINUSE);
	assert_int_equal(lstat(s->socket_path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	unlink(s->socket_path);

	assert_int_equal(open_server(s, "unix:/nonexistent-folder/x.sock", 1), -ENOENT);
	assert_null(s->scrape);
}

static void a_socket_file_of_somebody_else_is_not_removed(void **state)
{
	struct server *s = *state;
	char address[128];
	int fd;

	snprintf(address, sizeof(address), "unix:%s", s->socket_path);
	assert_int_equal(open_server(s, address, 1), 0);
	unlink(s->socket_path);
	fd = listen_at(s->socket_path);
	s->scrape = scrape_free(s->scrape);
	assert_int_equal(access(s->socket_path, F_OK), 0);
	close(fd);
}

/* Runs scrape_new() with standard error caught. */
static int open_caught(struct server *s, const char *address, char *text, size_t size)
{
	int kept = dup(STDERR_FILENO), pipes[2], r;
	ssize_t n;

	assert_int_equal(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
	fflush(stderr);
	dup2(pipes[1], STDERR_FILENO);
	r = open_server(s, address, 1);
	dup2(kept, STDERR_FILENO);
	n = read(pipes[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close(kept);
	close(pipes[0]);
	close(pipes[1]);
	return r;
}

static void a_port_in_use_is_named_and_nothing_stays_open(void **state)
{
	struct server *s = *state;
	struct scrape *first;
	char *address, text[1024];
	size_t before;

	assert_int_equal(open_server(s, "127.0.0.1:0", 1), 0);
	first = s->scrape;
	s->scrape = NULL;
	address = strdup(scrape_address(first, 0));
	before = open_descriptors();
	assert_int_equal(open_caught(s, address, text, sizeof(text)), -EADDRINUSE);
	assert_null(s->scrape);
	assert_int_equal(open_descriptors(), before);
	assert_non_null(strstr(text, address));
	assert_non_null(strstr(text, "another program"));
	assert_null(strchr(text, '\n')[1] ? text : NULL);
	free(address);
	scrape_free(first);
}

static void all_addresses_open_or_none(void **state)
{
	struct server *s = *state;
	char unix_address[128], *listen[3] = {unix_address, strdup("127.0.0.1:0"), strdup("127.0.0.1:nonsense")};
	size_t before = open_descriptors();

	snprintf(unix_address, sizeof(unix_address), "unix:%s", s->socket_path);
	assert_int_equal(scrape_new(s->event, listen, 3, 1, &s->handlers, &s->scrape), -EINVAL);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(access(s->socket_path, F_OK), -1);
	assert_int_equal(scrape_new(s->event, listen, 2, 1, &s->handlers, &s->scrape), 0);
	assert_string_equal(scrape_address(s->scrape, 0), unix_address);
	close(dial_tcp(scrape_address(s->scrape, 1), 0));
	close(dial_unix(s->socket_path));
	free(listen[1]);
	free(listen[2]);
}

static void what_is_no_address_is_refused(void **state)
{
	static const char *const bad[] = {"",
					  ":",
					  ":80",
					  "127.0.0.1",
					  "127.0.0.1:",
					  "127.0.0.1:x",
					  "127.0.0.1:-1",
					  "127.0.0.1:65536",
					  "127.0.0.1:080808",
					  "127.0.0.1:+1",
					  "localhost:0",
					  "::1:0",
					  "[::1]",
					  "[::1]0",
					  "[127.0.0.1]:0",
					  "[:0",
					  "unix:",
					  "unix:relative",
					  "unix:@name",
					  "http://127.0.0.1:0",
					  "SYSTEMD"};
	char long_path[256];
	struct server *s = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (open_server(s, bad[i], 1) != -EINVAL)
			fail_msg("accepted: %s", bad[i]);
	memset(long_path, 'a', sizeof(long_path));
	memcpy(long_path, "unix:/", 6);
	long_path[255] = '\0';
	assert_int_equal(open_server(s, long_path, 1), -EINVAL);
	assert_int_equal(open_server(s, "192.0.2.1:0", 1), -EADDRNOTAVAIL);
}

static void ipv6_addresses_are_named_in_brackets(void **state)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct server *s = *state;
	struct reply r = {0};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool there = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;

	close(fd);
	if (!there) {
		print_message("skipped: no IPv6 loopback address here\n");
		skip();
	}
	assert_int_equal(open_server(s, "[::1]:0", 1), 0);
	assert_int_equal(strncmp(scrape_address(s->scrape, 0), "[::1]:", 6), 0);
	a.sin6_port = htons((uint16_t)atoi(scrape_address(s->scrape, 0) + 6));
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_true(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS);
	say(s, fd, GET("/metrics"));
	hear(s, fd, &r);
	assert_int_equal(r.status, 200);
	done_reply(&r);
	close(fd);
}

static void without_systemd_there_is_nothing_to_take_over(void **state)
{
	struct server *s = *state;

	unsetenv("LISTEN_FDS");
	assert_int_equal(open_server(s, "systemd", 1), -ENOENT);
}

/* In a child, since the descriptors have fixed numbers: 3 a file (as from the descriptor store), 4 a listening socket.
 */
static int take_over_from_systemd(struct server *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char pid[16];
	int fd;

	/* The parent's loop is not usable after a fork, and its descriptors are in the way. */
	s->event = sd_event_unref(s->event);
	for (fd = 3; fd < 256; fd++)
		close(fd);
	if (open("/dev/null", O_RDWR) != 3 || socket(AF_INET, SOCK_STREAM, 0) != 4 ||
	    bind(4, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(4, 1) < 0 || sd_event_new(&s->event) < 0)
		return 10;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "2", 1);
	for (int round = 0; round < 2; round++) { /* a second time, as after a reload */
		if (open_server(s, "systemd", 4) != 0)
			return 11;
		if (strncmp(scrape_address(s->scrape, 0), "127.0.0.1:", 10) != 0 || scrape_address(s->scrape, 1))
			return 12;
		assert_serves(s);
		s->scrape = scrape_free(s->scrape);
	}
	s->event = sd_event_unref(s->event);
	return s->reported == 2 ? 0 : 13;
}

static void sockets_of_systemd_are_taken_over_again_and_again(void **state)
{
	struct server *s = *state;
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0)
		_exit(take_over_from_systemd(s));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, make_server, free_server)
#define WITH_LARGE_SERVER(test) cmocka_unit_test_setup_teardown(test, make_large_server, free_server)
#define BARE(test) cmocka_unit_test_setup_teardown(test, make_bare, free_server)
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
	    WITH_SERVER(a_connection_serves_one_request_after_another),
	    WITH_SERVER(pipelined_requests_are_answered_in_order),
	    WITH_LARGE_SERVER(too_many_scrapes_at_once_get_503_until_one_is_done),
	    WITH_LARGE_SERVER(slow_and_half_open_clients_do_not_hold_up_a_scrape),
	    WITH_LARGE_SERVER(a_client_that_leaves_midway_gives_its_place_back),
	    WITH_LARGE_SERVER(connections_that_finish_nothing_are_closed_at_their_deadline),
	    WITH_SERVER(a_connection_in_use_outlives_the_deadline),
	    WITH_SERVER(idle_connections_beyond_the_limit_give_way),
	    WITH_SERVER(a_connection_that_the_client_closes_is_freed_at_once),
	    WITH_SERVER(garbage_is_refused_and_hurts_nobody),
	    WITH_SERVER(headers_without_end_are_cut_off),
	    WITH_SERVER(large_bodies_are_not_read),
	    WITH_LARGE_SERVER(a_server_may_go_while_clients_wait),
	    BARE(a_unix_socket_serves_its_group_and_goes_with_the_server),
	    BARE(a_stale_unix_socket_is_replaced),
	    BARE(a_unix_socket_in_use_and_other_files_stay),
	    BARE(a_socket_file_of_somebody_else_is_not_removed),
	    BARE(a_port_in_use_is_named_and_nothing_stays_open),
	    BARE(all_addresses_open_or_none),
	    BARE(what_is_no_address_is_refused),
	    BARE(ipv6_addresses_are_named_in_brackets),
	    BARE(without_systemd_there_is_nothing_to_take_over),
	    BARE(sockets_of_systemd_are_taken_over_again_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
