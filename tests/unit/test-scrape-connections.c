/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and listening sockets of the scrape endpoint: slow, broken, many, taken, stale. */
#include "tests/unit/scrape-fixture.h"

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

/* All at once, before the loop gets a turn: libmicrohttpd reaches its limit and stops listening. */
static void a_burst_of_idle_connections_does_not_silence_the_port(void **state)
{
	struct server *s = *state;
	uint64_t began_ns = clock_monotonic_ns();
	int fds[120];

	for (size_t i = 0; i < 120; i++)
		fds[i] = dial(s);
	assert_serves(s);
	assert_true(clock_monotonic_ns() - began_ns < 5 * NSEC_PER_SEC);
	for (size_t i = 0; i < 120; i++)
		close(fds[i]);
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
	const struct CMUnitTest tests[] = {
	    WITH_SERVER(a_connection_serves_one_request_after_another),
	    WITH_SERVER(pipelined_requests_are_answered_in_order),
	    WITH_LARGE_SERVER(too_many_scrapes_at_once_get_503_until_one_is_done),
	    WITH_LARGE_SERVER(slow_and_half_open_clients_do_not_hold_up_a_scrape),
	    WITH_LARGE_SERVER(a_client_that_leaves_midway_gives_its_place_back),
	    WITH_LARGE_SERVER(connections_that_finish_nothing_are_closed_at_their_deadline),
	    WITH_SERVER(a_connection_in_use_outlives_the_deadline),
	    WITH_SERVER(idle_connections_beyond_the_limit_give_way),
	    WITH_SERVER(a_burst_of_idle_connections_does_not_silence_the_port),
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
