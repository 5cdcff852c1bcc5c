/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <grp.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/sink/crash_line.h"
#include "tests/unit/control-fixture.h"

static void assert_answer(struct bench *b, const char *request, const char *expected)
{
	auto_free char *answer = ask(b, request);

	if (strcmp(answer, expected) != 0)
		fail_msg("%.60s: %s", request, answer);
}

static void assert_error(struct bench *b, const char *request, const char *hint)
{
	auto_free char *answer = ask(b, request);

	if (strncmp(answer, "error ", 6) != 0 || !strstr(answer, hint) || count_lines(answer) != 1)
		fail_msg("%.60s: %s", request, answer);
}

/* The comms in a text answer, in one string. */
static void assert_comms(struct bench *b, const char *request, const char *expected)
{
	auto_free char *answer = ask(b, request);
	auto_strbuf comms = {0};
	char *line = answer;

	assert_int_equal(strncmp(answer, "ok\n", 3), 0);
	for (line += 3; *line; line = strchr(line, '\n') + 1) {
		const char *end = strstr(line, "[4711"), *begin = end;

		assert_non_null(end);
		while (begin[-1] != ' ')
			begin--;
		strbuf_add(&comms, begin, (size_t)(end - begin));
	}
	strbuf_adds(&comms, "");
	assert_string_equal(comms.data ? comms.data : "", expected);
}

#define SIGNALS "signals SIGSEGV SIGBUS SIGABRT\n"

/* ---- crashes ---- */

static void an_empty_history_is_an_answer(void **state)
{
	assert_answer(*state, "crashes\n", "ok\n");
}

static void crashes_come_oldest_first(void **state)
{
	struct bench *b = *state;

	add_crash(b, "/a", "one", 0);
	add_crash(b, "/b/c", "two", 60);
	add_crash(b, "/b/d", "three", 120);
	assert_comms(b, "crashes\n", "onetwothree");
	assert_comms(b, "crashes cgroup=/b/*\n", "twothree");
	assert_comms(b, "crashes cgroup=/**\n", "onetwothree");
	assert_comms(b, "crashes cgroup=/B\n", "");
	assert_comms(b, "crashes since=1785593105123456789\n", "twothree"); /* exactly the second */
	assert_comms(b, "crashes since=1785593105123456790 cgroup=/**\n", "three");
	assert_comms(b, "crashes since=18446744073709551615\n", "");
	assert_comms(b, "crashes format=text\n", "onetwothree");
}

static void a_crash_is_the_line_that_it_is_elsewhere(void **state)
{
	struct bench *b = *state;
	auto_strbuf text = {0}, json = {0}, hidden = {0};

	add_crash(b, "/a", "one", 0);
	strbuf_adds(&text, "ok\n");
	strbuf_adds(&json, "ok\n");
	strbuf_adds(&hidden, "ok\n");
	crash_line_text(crash_history_next(b->history, 0), true, &text);
	crash_line_json(crash_history_next(b->history, 0), true, &json);
	crash_line_json(crash_history_next(b->history, 0), false, &hidden);
	assert_answer(b, "crashes\n", text.data);
	assert_answer(b, "crashes format=json\n", json.data);
	control_set_disclosure(b->control, CRASH_ADDRESSES_NONE);
	assert_answer(b, "crashes format=json\n", hidden.data);
	control_set_disclosure(b->control, CRASH_ADDRESSES_ALL);
	assert_answer(b, "crashes format=json\n", json.data);
}

static void values_are_unescaped(void **state)
{
	struct bench *b = *state;

	add_crash(b, "/a b%\n\xff", "odd", 0);
	add_crash(b, "/ab", "plain", 0);
	assert_comms(b, "crashes cgroup=/a%20b%25%0a\xff\n", "odd");
	assert_comms(b, "crashes cgroup=%2Fa%62\n", "plain");
}

/* ---- following ---- */

static void a_follower_is_told_what_comes(void **state)
{
	struct bench *b = *state;
	auto_strbuf heard = {0};
	int fd = dial(b);

	add_crash(b, "/a", "one", 0);
	say(b, fd, "crashes follow=1 cgroup=/a\n");
	hear(b, fd, "one[", &heard);
	add_crash(b, "/b", "other", 0);
	add_crash(b, "/a", "two", 0);
	hear(b, fd, "two[", &heard);
	shutdown(fd, SHUT_WR); /* a peer that has said all is no peer that has gone */
	for (int i = 0; i < 3; i++)
		turn(b, 5);
	add_crash(b, "/a", "three", 0);
	hear(b, fd, "three[", &heard);
	assert_null(strstr(heard.data, "other"));
	assert_int_equal(count_lines(heard.data), 4);
	close(fd);
}

/* Not even those that the history has forgotten by the next turn of the loop. */
static void a_burst_reaches_a_follower(void **state)
{
	struct bench *b = *state;
	auto_strbuf heard = {0};
	char comm[16];
	int fd = dial(b);

	assert_int_equal(crash_history_resize(b->history, 1), 0);
	say(b, fd, "crashes follow=1\n");
	hear(b, fd, "ok\n", &heard);
	for (int i = 0; i < 50; i++) {
		snprintf(comm, sizeof(comm), "c%d", i);
		add_crash(b, "/a", comm, 0);
	}
	hear(b, fd, "c49[", &heard);
	assert_int_equal(count_lines(heard.data), 51);
	close(fd);
}

static void an_idle_follower_stays_and_costs_no_turns(void **state)
{
	struct bench *b = *state;
	auto_strbuf heard = {0};
	int fd = dial(b), turns = 0;

	control_set_patience(b->control, 20 * NSEC_PER_MSEC);
	say(b, fd, "crashes follow=1\n");
	hear(b, fd, "ok\n", &heard);
	for (uint64_t end = clock_monotonic_ns() + 200 * NSEC_PER_MSEC; clock_monotonic_ns() < end;)
		turns += turn(b, 20);
	assert_in_range(turns, 0, 5);
	add_crash(b, "/a", "late", 0);
	hear(b, fd, "late[", &heard);
	close(fd);
}

static void a_follower_that_falls_behind_loses_its_connection(void **state)
{
	struct bench *b = *state;
	auto_strbuf heard = {0};
	int fd = dial(b);

	assert_int_equal(crash_history_resize(b->history, 10), 0);
	say(b, fd, "crashes follow=1 format=json\n");
	hear(b, fd, "ok\n", &heard);
	/* More than sockets buffer, of which it reads nothing. */
	for (int i = 0; i < 3000; i++) {
		add_crash(b, "/a", "c", 0);
		turn(b, 0);
	}
	hear(b, fd, NULL, &heard);
	/* What it got has no hole. */
	assert_in_range(count_lines(heard.data), 10, 2999);
	for (size_t i = 1; i < count_lines(heard.data) - 1; i++) {
		char number[40];

		snprintf(number, sizeof(number), "{\"number\":%zu,", i);
		assert_non_null(strstr(heard.data, number));
	}
	close(fd);
}

/* ---- counts ---- */

static void bind_cgroup(struct bench *b, uint64_t id, const char *path)
{
	struct identity *identity = NULL;
	bool over_limit;

	assert_int_equal(identity_parse(path, strlen(path), &identity), 0);
	assert_int_equal(aggregate_bind(b->aggregate, id, identity, &over_limit), 0);
}

static void counts_of_one_cgroup(void **state)
{
	struct bench *b = *state;
	struct bad_counts growth = {0};

	bind_cgroup(b, 7, "/a");
	bind_cgroup(b, 8, "/a b/\xff");
	bind_cgroup(b, 9, "/never");
	growth.count[BAD_HANDLED][SEGV(1)] = 10000;
	growth.count[BAD_FATAL][BUS(2)] = 1;
	growth.count[BAD_FATAL][BAD_BASE_ABRT + BAD_CODE_SENT(BAD_CODES_ABRT)] = 3;
	aggregate_bad(b->aggregate, 7, &growth);
	aggregate_bad(b->aggregate, 4711, &growth); /* unknown: counts as other */
	growth.count[BAD_FATAL][SEGV(1)] = UINT64_C(1) << 40;
	aggregate_bad(b->aggregate, 8, &growth);
	assert_answer(b, "bad cgroup=/a\n",
		      "ok\ncounted\n" SIGNALS
		      "SIGSEGV maperr handled 10000\nSIGBUS adrerr fatal 1\nSIGABRT sent fatal 3\n");
	assert_answer(b, "bad cgroup=/a%20b/%ff\n",
		      "ok\ncounted\n" SIGNALS "SIGSEGV maperr handled 10000\nSIGSEGV maperr fatal 1099511627776\n"
		      "SIGBUS adrerr fatal 1\nSIGABRT sent fatal 3\n");
	assert_answer(b, "bad cgroup=/never\n", "ok\ncounted\n" SIGNALS);
	assert_answer(b, "bad cgroup=/unknown\n", "ok\nother\n" SIGNALS);
	b->snapshot_error = -EIO;
	assert_error(b, "bad cgroup=/a\n", "Input/output error");
}

/* ---- bad requests ---- */

static void bad_requests_are_explained(void **state)
{
	static const struct {
		const char *request, *hint;
	} cases[] = {
	    {"\n", "crashes and bad"},
	    {" crashes\n", "crashes and bad"},
	    {"CRASHES\n", "crashes and bad"},
	    {"crashesx\n", "crashes and bad"},
	    {"crashes \n", "each at most once"},
	    {"crashes  follow=1\n", "each at most once"},
	    {"crashes follow\n", "each at most once"},
	    {"crashes follow=1 follow=1\n", "each at most once"},
	    {"crashes =1\n", "each at most once"},
	    {"crashes color=red\n", "each at most once"},
	    {"crashes follow=0\n", "only be 1"},
	    {"crashes follow=\n", "only be 1"},
	    {"crashes format=xml\n", "text or json"},
	    {"crashes format=jsonx\n", "text or json"},
	    {"crashes since=\n", "nanoseconds"},
	    {"crashes since=-1\n", "nanoseconds"},
	    {"crashes since=10m\n", "nanoseconds"},
	    {"crashes since=18446744073709551616\n", "nanoseconds"},
	    {"crashes cgroup=\n", "empty pattern"},
	    {"crashes cgroup=a.service\n", "must begin with /"},
	    {"crashes cgroup=/[\n", "unclosed"},
	    {"crashes cgroup=/%\n", "%25"},
	    {"crashes cgroup=/%2\n", "%25"},
	    {"crashes cgroup=/%2g\n", "%25"},
	    {"crashes cgroup=/%00\n", "NUL"},
	    {"crashes\tfollow=1\n", "control character"},
	    {"crashes\r\n", "control character"},
	    {"bad\n", "cgroup=PATH"},
	    {"bad cgroup=a\n", "begins with /"},
	    {"bad since=1\n", "cgroup=PATH"},
	    {"bad cgroup=/a follow=1\n", "cgroup=PATH"},
	    {"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n", "control character"},
	    {"\xff\xfe\xff\xfe\n", "crashes and bad"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_error(*state, cases[i].request, cases[i].hint);
}

static void a_line_without_an_end_is_refused(void **state)
{
	struct bench *b = *state;
	auto_free char *line = malloc(100002);
	auto_strbuf heard = {0};
	size_t len = CONTROL_LINE_MAX;
	int fd;

	/* The longest line that may be, and one byte more. */
	memset(line, 'x', 100001);
	memcpy(line, "crashes cgroup=/", 16);
	strcpy(line + len - 1, "\n");
	assert_answer(b, line, "ok\n");
	strcpy(line + len - 1, "x\n");
	assert_error(b, line, "too long");
	memset(line, 'x', 100001);
	line[100001] = '\0';
	assert_error(b, line, "too long");

	fd = dial(b);
	say(b, fd, "crashes");
	shutdown(fd, SHUT_WR);
	hear(b, fd, NULL, &heard);
	assert_string_equal(heard.data, "error the request has no line end\n");
	close(fd);
}

/* What was not read does not break the connection before the error is read to its end. */
static void an_error_ends_like_any_answer(void **state)
{
	static char line[CONTROL_LINE_MAX + 1000];
	struct bench *b = *state;
	char answer[200];
	int fd = dial(b);
	ssize_t n;

	memset(line, 'x', sizeof(line) - 1);
	say(b, fd, line);
	while (turn(b, 100))
		;
	n = recv(fd, answer, sizeof(answer), 0);
	assert_true(n > 0 && answer[n - 1] == '\n');
	assert_int_equal(recv(fd, answer, sizeof(answer), 0), 0);
	close(fd);
}

static void a_request_may_come_in_pieces(void **state)
{
	struct bench *b = *state;
	auto_strbuf heard = {0};
	const char *request = "crashes cgroup=/a\nmore that nobody asked for";
	int fd = dial(b);

	add_crash(b, "/a", "one", 0);
	for (const char *c = request; *c; c++) {
		if (send(fd, c, 1, MSG_NOSIGNAL) < 0)
			break;
		turn(b, 0);
		turn(b, 0);
	}
	hear(b, fd, NULL, &heard);
	assert_non_null(strstr(heard.data, "ok\n"));
	assert_non_null(strstr(heard.data, "one["));
	close(fd);
}

static void random_bytes_get_an_error(void **state)
{
	struct bench *b = *state;
	char bytes[65] = "";

	srandom(1);
	for (int i = 0; i < 500; i++) {
		for (size_t k = 0; k < sizeof(bytes) - 2; k++)
			bytes[k] = (char)(random() % 255 + 1);
		bytes[sizeof(bytes) - 2] = '\n';
		assert_error(b, bytes, "");
	}
}

/* ---- peers ---- */

static void raise_descriptors(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void too_many_peers_are_told_so(void **state)
{
	static int fds[1000];
	struct bench *b = *state;

	raise_descriptors();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = dial(b);
	for (size_t i = CONTROL_PEERS_MAX; i < ARRAY_SIZE(fds); i++) {
		auto_strbuf heard = {0};

		hear(b, fds[i], NULL, &heard);
		assert_string_equal(heard.data, "error too many connections at once: try again later\n");
	}
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++) {
		auto_strbuf heard = {0};

		say(b, fds[i], "crashes\n");
		hear(b, fds[i], NULL, &heard);
		assert_string_equal(heard.data, "ok\n");
	}
	assert_answer(b, "crashes\n", "ok\n");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

static void peers_that_go_leave_room(void **state)
{
	static const char *const said[] = {"", "crash", "crashes\n", "crashes follow=1\n"};
	struct bench *b = *state;

	for (int i = 0; i < 200; i++)
		add_crash(b, "/a", "one", 0);
	for (int i = 0; i < 8 * CONTROL_PEERS_MAX; i++) {
		int fd = dial(b);

		say(b, fd, said[i % 4]);
		turn(b, 0);
		turn(b, i % 3);
		close(fd); /* in the middle of whatever it was */
	}
	/* In a bounded number of turns, not after their time. */
	for (int i = 0; i < 40 * CONTROL_PEERS_MAX; i++)
		turn(b, 0);
	for (int i = 0; i < CONTROL_PEERS_MAX; i++) {
		auto_free char *answer = ask(b, "crashes\n");

		assert_int_equal(count_lines(answer), 201);
	}
}

/* Also those who wait for a crash that does not come. */
static void followers_that_go_leave_room(void **state)
{
	struct bench *b = *state;
	int fds[CONTROL_PEERS_MAX], turns = 0;

	for (int i = 0; i < CONTROL_PEERS_MAX; i++) {
		auto_strbuf heard = {0};

		fds[i] = dial(b);
		say(b, fds[i], "crashes follow=1\n");
		hear(b, fds[i], "ok\n", &heard);
	}
	while (turn(b, 0))
		turns++;
	for (int i = 0; i < CONTROL_PEERS_MAX; i++)
		close(fds[i]);
	while (turn(b, 0))
		assert_in_range(turns++, 0, 10 * CONTROL_PEERS_MAX);
	assert_answer(b, "crashes\n", "ok\n");
}

/* It can no more be sent to, which would be a signal for a program that is not careful. */
static void a_peer_that_hears_no_more_is_no_harm(void **state)
{
	struct bench *b = *state;
	int fd = dial(b);

	say(b, fd, "crashes\n");
	assert_int_equal(shutdown(fd, SHUT_RD), 0);
	while (turn(b, 100))
		;
	assert_answer(b, "crashes\n", "ok\n");
	close(fd);
}

static void say_nothing_or_half(struct bench *b, int fds[CONTROL_PEERS_MAX], const char *said)
{
	for (int i = 0; i < CONTROL_PEERS_MAX; i++) {
		fds[i] = dial(b);
		say(b, fds[i], said);
	}
}

/* Their time ends though nothing of what they do not do ever happens. */
static void silent_peers_lose_their_place(void **state)
{
	static const char *const said[] = {"", "crashes"};
	struct bench *b = *state;

	control_set_patience(b->control, 50 * NSEC_PER_MSEC);
	for (size_t k = 0; k < ARRAY_SIZE(said); k++) {
		int fds[CONTROL_PEERS_MAX];

		say_nothing_or_half(b, fds, said[k]);
		for (int i = 0; i < CONTROL_PEERS_MAX; i++) {
			auto_strbuf heard = {0};

			hear(b, fds[i], NULL, &heard);
			close(fds[i]);
		}
		assert_answer(b, "crashes\n", "ok\n");
	}
}

static void fill_history(struct bench *b)
{
	for (int i = 0; i < 1000; i++)
		add_crash(b, "/system.slice/a.service/with/a/path/of/some/length", "one", 0);
}

/* More than a megabyte of JSON, of which a socket takes a part. */
static void a_large_history_is_streamed(void **state)
{
	struct bench *b = *state;
	auto_free char *answer = NULL;

	fill_history(b);
	answer = ask(b, "crashes format=json\n");
	assert_int_equal(count_lines(answer), 1001);
	assert_true(strlen(answer) > 500000);
}

static void peers_that_never_read_cost_little_and_end(void **state)
{
	struct bench *b = *state;
	int fds[CONTROL_PEERS_MAX];
	size_t before, after;

	fill_history(b);
	before = mallinfo2().uordblks;
	say_nothing_or_half(b, fds, "crashes format=json\n");
	while (turn(b, 100))
		;
	after = mallinfo2().uordblks;
	/* A line, a chunk of twice 16 KiB, the loop's own. */
	assert_in_range(after - before, 0, CONTROL_PEERS_MAX * (size_t)(64 << 10));
	control_set_patience(b->control, 50 * NSEC_PER_MSEC);
	for (int i = 0; i < CONTROL_PEERS_MAX; i++)
		close(fds[i]);
	say_nothing_or_half(b, fds, "crashes format=json\n");
	/* Without a byte read they are gone, and there is room. */
	for (uint64_t end = clock_monotonic_ns() + 30 * NSEC_PER_SEC; clock_monotonic_ns() < end;) {
		auto_free char *answer = ask(b, "crashes cgroup=/none\n");

		if (strcmp(answer, "ok\n") == 0)
			break;
		assert_non_null(strstr(answer, "too many"));
	}
	assert_answer(b, "crashes cgroup=/none\n", "ok\n");
	for (int i = 0; i < CONTROL_PEERS_MAX; i++)
		close(fds[i]);
}

/* It takes a line whenever another one comes, so that there is always something left to send. */
static void a_follower_that_lags_costs_little(void **state)
{
	struct bench *b = *state;
	auto_strbuf line = {0};
	size_t before = 0, after;
	char bytes[2000];
	int fd = dial(b);

	fill_history(b);
	crash_line_json(crash_history_next(b->history, 999), true, &line);
	say(b, fd, "crashes follow=1 format=json\n");
	while (turn(b, 100))
		;
	for (int i = 0; i < 6000; i++) {
		add_crash(b, "/system.slice/a.service/with/a/path/of/some/length", "one", 0);
		turn(b, 0);
		assert_int_equal(recv(fd, bytes, line.len, 0), line.len);
		if (i == 2000)
			before = mallinfo2().uordblks;
	}
	after = mallinfo2().uordblks;
	assert_in_range(after > before ? after - before : 0, 0, 100 << 10);
	close(fd);
}

/* A peer that is slow but alive gets everything. */
static void a_slow_reader_is_waited_for(void **state)
{
	struct bench *b = *state;
	auto_strbuf heard = {0};
	char bytes[8192];
	int fd = dial(b);
	ssize_t n = -1;

	fill_history(b);
	say(b, fd, "crashes format=json\n");
	while (n != 0) {
		for (int i = 0; i < 3; i++)
			turn(b, 0);
		n = recv(fd, bytes, sizeof(bytes), 0);
		assert_true(n >= 0 || errno == EAGAIN);
		if (n > 0)
			strbuf_add(&heard, bytes, (size_t)n);
	}
	assert_int_equal(count_lines(heard.data), 1001);
	close(fd);
}

/* A pattern that takes long on long paths is matched in many short turns. */
static void a_costly_pattern_does_not_hold_up_the_loop(void **state)
{
	struct bench *b = *state;
	char path[1001] = "/", request[3200] = "crashes cgroup=/";
	auto_strbuf heard = {0};
	int fd = dial(b), turns = 0;
	ssize_t n = -1;

	memset(path + 1, 'a', sizeof(path) - 2);
	for (int i = 0; i < 200; i++)
		add_crash(b, path, "one", 0);
	for (int i = 0; i < 1500; i++)
		strcat(request, "*a");
	strcat(request, "b\n");
	say(b, fd, request);
	while (n != 0) {
		turns += turn(b, 100);
		n = recv(fd, path, sizeof(path), 0);
	}
	/* 200 times 1,000 by 3,000 bytes, in turns of two million. */
	assert_in_range(turns, 100, 1000);
	close(fd);
}

static void without_descriptors_the_loop_does_not_spin(void **state)
{
	struct bench *b = *state;
	auto_strbuf heard = {0};
	int fd = dial(b), turns = 0;
	struct rlimit limit, low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = limit;
	low.rlim_cur = (rlim_t)fd + 1;
	say(b, fd, "crashes\n");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	for (uint64_t end = clock_monotonic_ns() + 300 * NSEC_PER_MSEC; clock_monotonic_ns() < end;)
		turns += turn(b, 50);
	assert_int_equal(recv(fd, &(char){0}, 1, 0), -1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_in_range(turns, 1, 5);
	hear(b, fd, NULL, &heard);
	assert_string_equal(heard.data, "ok\n");
	close(fd);
}

/* ---- socket ---- */

static void the_socket_is_for_its_group(void **state)
{
	struct bench *b = *state;
	struct control *c = NULL;
	char path[100];
	struct stat st;

	assert_int_equal(stat(b->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(st.st_gid, getegid());
	snprintf(path, sizeof(path), "%s/other", b->folder);
	if (geteuid() == 0) {
		assert_int_equal(control_new(b->event, path, "daemon", CRASH_ADDRESSES_NONE, &b->handlers, &c), 0);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0660);
		assert_int_equal(st.st_gid, getgrnam("daemon")->gr_gid);
		c = control_free(c);
		assert_int_equal(control_new(b->event, path, "54321", CRASH_ADDRESSES_NONE, &b->handlers, &c), 0);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_gid, 54321);
		c = control_free(c);
	}
	assert_int_equal(control_new(b->event, path, "no-such-group", CRASH_ADDRESSES_NONE, &b->handlers, &c), -ESRCH);
	assert_int_equal(control_new(b->event, path, "4294967295", CRASH_ADDRESSES_NONE, &b->handlers, &c), -ESRCH);
	assert_int_equal(control_new(b->event, path, "1x", CRASH_ADDRESSES_NONE, &b->handlers, &c), -ESRCH);
	assert_int_equal(access(path, F_OK), -1);
	assert_null(c);
	assert_null(control_free(NULL));
}

static int try_at(struct bench *b, const char *path)
{
	struct control *c = NULL;
	int r = control_new(b->event, path, "", CRASH_ADDRESSES_NONE, &b->handlers, &c);

	control_free(c);
	return r;
}

static void make_stale(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
}

static void only_a_stale_socket_is_replaced(void **state)
{
	struct bench *b = *state;
	char path[100], link[100], long_path[200] = "/";
	FILE *f;

	assert_int_equal(try_at(b, b->path), -EADDRINUSE); /* we are there */
	assert_answer(b, "crashes\n", "ok\n");
	snprintf(path, sizeof(path), "%s/stale", b->folder);
	make_stale(path);
	snprintf(link, sizeof(link), "%s/link", b->folder);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(try_at(b, link), -EADDRINUSE);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(try_at(b, path), 0);
	assert_int_equal(access(path, F_OK), -1);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(try_at(b, path), -EADDRINUSE);
	assert_int_equal(unlink(path), 0); /* still there */
	assert_int_equal(try_at(b, "/no/such/folder/control.sock"), -ENOENT);
	assert_int_equal(try_at(b, "control.sock"), -EINVAL);
	assert_int_equal(try_at(b, ""), -EINVAL);
	memset(long_path + 1, 'x', sizeof(long_path) - 2);
	assert_int_equal(try_at(b, long_path), -ENAMETOOLONG);
}

static void what_another_put_there_stays(void **state)
{
	struct bench *b = *state;
	struct control *c = NULL;
	char path[100];

	snprintf(path, sizeof(path), "%s/mine", b->folder);
	assert_int_equal(control_new(b->event, path, "", CRASH_ADDRESSES_NONE, &b->handlers, &c), 0);
	assert_int_equal(unlink(path), 0);
	make_stale(path);
	control_free(c);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_bench, free_bench)
	const struct CMUnitTest tests[] = {
	    TEST(an_empty_history_is_an_answer),
	    TEST(crashes_come_oldest_first),
	    TEST(a_crash_is_the_line_that_it_is_elsewhere),
	    TEST(values_are_unescaped),
	    TEST(a_follower_is_told_what_comes),
	    TEST(a_burst_reaches_a_follower),
	    TEST(an_idle_follower_stays_and_costs_no_turns),
	    TEST(a_follower_that_falls_behind_loses_its_connection),
	    TEST(counts_of_one_cgroup),
	    TEST(bad_requests_are_explained),
	    TEST(a_line_without_an_end_is_refused),
	    TEST(an_error_ends_like_any_answer),
	    TEST(a_request_may_come_in_pieces),
	    TEST(random_bytes_get_an_error),
	    TEST(too_many_peers_are_told_so),
	    TEST(peers_that_go_leave_room),
	    TEST(followers_that_go_leave_room),
	    TEST(a_peer_that_hears_no_more_is_no_harm),
	    TEST(silent_peers_lose_their_place),
	    TEST(a_large_history_is_streamed),
	    TEST(peers_that_never_read_cost_little_and_end),
	    TEST(a_follower_that_lags_costs_little),
	    TEST(a_slow_reader_is_waited_for),
	    TEST(a_costly_pattern_does_not_hold_up_the_loop),
	    TEST(without_descriptors_the_loop_does_not_spin),
	    TEST(the_socket_is_for_its_group),
	    TEST(only_a_stale_socket_is_replaced),
	    TEST(what_another_put_there_stays),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
