/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/scrape-fixture.h"

/* ---- server ---- */

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

int open_server(struct server *s, const char *address, uint32_t max_concurrent)
{
	char *const listen[] = {(char *)(uintptr_t)address};

	return scrape_new(s->event, listen, 1, max_concurrent, &s->handlers, &s->scrape);
}

int make_bare(void **state)
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

int make_server(void **state)
{
	make_bare(state);
	assert_int_equal(open_server(*state, "127.0.0.1:0", 4), 0);
	return 0;
}

/* Several megabytes: more than the sockets between server and client buffer. */
int make_large_server(void **state)
{
	make_server(state);
	add_cgroups(*state, 1000);
	return 0;
}

int free_server(void **state)
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

void step(struct server *s)
{
	assert_true(sd_event_run(s->event, 1000) >= 0);
}

void run_for(struct server *s, uint64_t ns)
{
	uint64_t end = clock_monotonic_ns() + ns;

	while (clock_monotonic_ns() < end)
		step(s);
}

/* ---- clients ---- */

int dial_tcp(const char *address, int receive_buffer)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	a.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	if (receive_buffer)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer)), 0);
	assert_true(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno == EINPROGRESS);
	return fd;
}

int dial(struct server *s)
{
	return dial_tcp(scrape_address(s->scrape, 0), 0);
}

int dial_slow(struct server *s)
{
	return dial_tcp(scrape_address(s->scrape, 0), 4096);
}

int unix_client(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int dial_unix(const char *path)
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

void say(struct server *s, int fd, const char *text)
{
	say_bytes(s, fd, text, strlen(text));
}

void done_reply(struct reply *r)
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
char *header_of(const char *head, const char *name)
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
void hear_kind(struct server *s, int fd, struct reply *r, bool head_only)
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

void hear(struct server *s, int fd, struct reply *r)
{
	hear_kind(s, fd, r, false);
}

/* Waits until the server closes; what it said until then stays in raw. */
void hear_end(struct server *s, int fd, struct reply *r)
{
	uint64_t end = clock_monotonic_ns() + PATIENCE_NS;

	while (drain(fd, &r->raw)) {
		step(s);
		assert_true(clock_monotonic_ns() < end);
	}
	r->closed = true;
}

/* One request on a connection of its own. */
void ask(struct server *s, const char *request, struct reply *r)
{
	int fd = dial(s);

	*r = (struct reply){0};
	say(s, fd, request);
	hear(s, fd, r);
	close(fd);
}

void assert_header(const struct reply *r, const char *name, const char *value)
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

void assert_serves(struct server *s)
{
	struct reply r;

	ask(s, GET("/metrics"), &r);
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.body, "\nfaultd_build_info{"));
	done_reply(&r);
}

size_t open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}
