/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultctl crashes in a child, against the daemon's socket in this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/ctl/ctl.h"
#include "daemon/ctl/since.h"
#include "daemon/exit.h"
#include "daemon/sink/crash_line.h"
#include "tests/unit/control-fixture.h"

#define ARGS_MAX 8

/* ---- times ---- */

#define NOW UINT64_C(1785593045123456789) /* 2026-08-01T14:04:05Z */

static void times_are_understood(void **state)
{
	/* Values by date(1). The zone is Berlin's: two hours ahead in summer, one in winter. */
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
	    {"0s", NOW},
	    {"90s", NOW - 90 * NSEC_PER_SEC},
	    {"10m", NOW - 600 * NSEC_PER_SEC},
	    {"2h", NOW - 7200 * NSEC_PER_SEC},
	    {"3d", NOW - 259200 * NSEC_PER_SEC},
	    {"99999d", 0},
	    {"today", UINT64_C(1785535200000000000)},
	    {"yesterday", UINT64_C(1785448800000000000)},
	    {"2026-08-01", UINT64_C(1785535200000000000)},
	    {"2026-08-01 16:04", UINT64_C(1785593040000000000)},
	    {"2026-08-01 16:04:05", UINT64_C(1785593045000000000)},
	    {"2026-08-01T16:04:05", UINT64_C(1785593045000000000)},
	    {"2026-08-01 16:04:05.123", UINT64_C(1785593045123000000)},
	    {"2026-01-01", UINT64_C(1767222000000000000)},
	    {"2028-02-29", UINT64_C(1835391600000000000)},
	    {"2026-08-01T14:04:05Z", UINT64_C(1785593045000000000)},
	    {"2026-08-01t14:04:05.123456789z", NOW},
	    {"2026-08-01T14:04:05.1234567890123Z", NOW},
	    {"2026-08-01T16:04:05+02:00", UINT64_C(1785593045000000000)},
	    {"2026-08-01T09:34:05-04:30", UINT64_C(1785593045000000000)},
	    {"2026-03-29 02:30", UINT64_C(1774747800000000000)}, /* the hour that is left out */
	    {"1960-01-01", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 1;

		if (since_parse(cases[i].text, NOW, &ns) != 0 || ns != cases[i].ns)
			fail_msg("%s: %lu, not %lu", cases[i].text, (unsigned long)ns, (unsigned long)cases[i].ns);
	}
}

static void what_is_no_time_is_refused(void **state)
{
	static const char *const texts[] = {
	    "",
	    "10",
	    "m",
	    "10 m",
	    "-10m",
	    "1.5h",
	    "10min",
	    "99999999999999999999s",
	    "18446744073709551615d",
	    "Today",
	    "tomorrow",
	    "2026",
	    "2026-8-1",
	    "2026-02-29",
	    "2026-02-30 12:00",
	    "2100-02-29",
	    "2026-13-01",
	    "2026-00-01",
	    "2026-01-00",
	    "2026-04-31",
	    "2026-08-01 ",
	    "2026-08-01 16",
	    "2026-08-01 24:00",
	    "2026-08-01 16:60",
	    "2026-08-01 16:04:61",
	    "2026-08-01 16:04:05.",
	    "2026-08-01x16:04",
	    "2026-08-01T14:04:05Zx",
	    "2026-08-01T14:04:05+2",
	    "2026-08-01T14:04:05+02:60",
	    "9999-01-01", /* beyond what 64 bits of nanoseconds hold */
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		uint64_t ns = 4711;

		if (since_parse(texts[i], NOW, &ns) != -EINVAL)
			fail_msg("'%s' was taken for %lu", texts[i], (unsigned long)ns);
	}
}

/* ---- requests ---- */

static void arguments_are_escaped_or_refused(void **state)
{
	char request[32] = "crashes";

	assert_int_equal(ctl_argument(request, sizeof(request), "k", "/a b%\n\x7f\xff="), 0);
	assert_string_equal(request, "crashes k=/a%20b%25%0A%7F\xff=");
	assert_int_equal(ctl_argument(request, sizeof(request), "k", "v"), 0);
	assert_string_equal(request, "crashes k=/a%20b%25%0A%7F\xff= k=v"); /* 31 bytes and the NUL */
	assert_int_equal(ctl_argument(request, sizeof(request), "k", ""), -E2BIG);
	request[30] = '\0';
	assert_int_equal(ctl_argument(request, sizeof(request), "k", ""), -E2BIG);
	request[28] = '\0';
	assert_int_equal(ctl_argument(request, sizeof(request), "k", "v"), -E2BIG);
	assert_int_equal(strlen(request), 28);
	assert_int_equal(ctl_argument(request, sizeof(request), "k", ""), 0);
	assert_int_equal(strlen(request), 31);
}

/* ---- the verb ---- */

struct run {
	pid_t pid;
	int out, err;
	struct strbuf said, complained;
};

static bool as_nobody; /* what begins from now on is run by a stranger */

/* `args` ends with NULL; "@" stands for the socket's path. */
static void begin(struct bench *b, struct run *r, const char *const *args)
{
	int out[2], err[2];

	*r = (struct run){0};
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0) {
		char *argv[ARGS_MAX + 2] = {(char *)(uintptr_t) "crashes"};
		int argc = 1;

		for (; *args; args++)
			argv[argc++] = strcmp(*args, "@") == 0 ? b->path : (char *)(uintptr_t)*args;
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		alarm(100);    /* whatever happens to its parent */
		close(out[0]); /* else it would be its own reader */
		close(err[0]);
		if (as_nobody && (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0))
			_exit(99);
		_exit(ctl_crashes(argc, argv));
	}
	close(out[1]);
	close(err[1]);
	r->out = out[0];
	r->err = err[0];
	fcntl(r->out, F_SETFL, O_NONBLOCK);
	fcntl(r->err, F_SETFL, O_NONBLOCK);
}

static void read_into(int fd, struct strbuf *to)
{
	char bytes[4096];
	ssize_t n;

	while (fd >= 0 && (n = read(fd, bytes, sizeof(bytes))) > 0)
		strbuf_add(to, bytes, (size_t)n);
}

/* Until it has said `text`. */
static void expect(struct bench *b, struct run *r, const char *text)
{
	uint64_t end_ns = clock_monotonic_ns() + 60 * NSEC_PER_SEC;

	while (!r->said.data || !strstr(r->said.data, text)) {
		assert_true(clock_monotonic_ns() < end_ns);
		turn(b, 10);
		read_into(r->out, &r->said);
	}
}

/* Until it has ended; returns the exit code. */
static int end(struct bench *b, struct run *r)
{
	uint64_t end_ns = clock_monotonic_ns() + 60 * NSEC_PER_SEC;
	int status;

	while (waitpid(r->pid, &status, WNOHANG) == 0) {
		assert_true(clock_monotonic_ns() < end_ns);
		turn(b, 10);
		read_into(r->out, &r->said);
		read_into(r->err, &r->complained);
	}
	read_into(r->out, &r->said);
	read_into(r->err, &r->complained);
	strbuf_adds(&r->said, "");
	strbuf_adds(&r->complained, "");
	strbuf_reserve(&r->said, 1);
	strbuf_reserve(&r->complained, 1);
	close_fd(r->out);
	close_fd(r->err);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void done(struct run *r)
{
	strbuf_done(&r->said);
	strbuf_done(&r->complained);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void assert_run(struct bench *b, const char *const *args, int code, const char *said, const char *complaint)
{
	struct run r;

	begin(b, &r, args);
	if (end(b, &r) != code || strcmp(r.said.data, said) != 0 || !strstr(r.complained.data, complaint) ||
	    (complaint[0] == '\0') != (r.complained.len == 0))
		fail_msg("%s %s: %s%s", args[0], args[1] ? args[1] : "", r.said.data, r.complained.data);
	done(&r);
}

static void crashes_are_listed(void **state)
{
	struct bench *b = *state;
	auto_strbuf text = {0}, json = {0};

	add_crash(b, "/a b", "one", 0);
	add_crash(b, "/b", "two", 600);
	crash_line_text(crash_history_next(b->history, 0), true, &text);
	crash_line_text(crash_history_next(b->history, 1), true, &text);
	crash_line_json(crash_history_next(b->history, 1), true, &json);
	assert_run(b, ARGS("--socket", "@"), FAULTD_OK, text.data, "");
	assert_run(b, ARGS("--socket", "@", "--json", "--since", "2026-08-01T14:04:06Z"), FAULTD_OK, json.data, "");
	assert_run(b, ARGS("--socket", "@", "--json", "--cgroup", "/b"), FAULTD_OK, json.data, "");
	text.data[strcspn(text.data, "\n") + 1] = '\0';
	assert_run(b, ARGS("--socket", "@", "--cgroup", "/a b"), FAULTD_OK, text.data, "");
	assert_run(b, ARGS("--socket", "@", "--cgroup", "/none"), FAULTD_OK, "", "");
}

static void following_goes_on_until_the_daemon_ends(void **state)
{
	struct bench *b = *state;
	struct run r;

	add_crash(b, "/a", "one", 0);
	begin(b, &r, ARGS("--socket", "@", "-f"));
	expect(b, &r, "one[");
	add_crash(b, "/a", "two", 0);
	expect(b, &r, "two["); /* at once, not when a buffer is full */
	b->control = control_free(b->control);
	assert_int_equal(end(b, &r), FAULTD_FAILED);
	assert_non_null(strstr(r.complained.data, "closed the connection"));
	done(&r);
}

/* As with `| head`: quietly, in the middle of what it would write. */
static void it_ends_when_nobody_reads_any_more(void **state)
{
	struct bench *b = *state;
	struct run r;

	for (int i = 0; i < 1000; i++)
		add_crash(b, "/a", "one", 0);
	begin(b, &r, ARGS("--socket", "@"));
	while (turn(b, 200)) /* more than the pipe takes, of which nothing is read */
		;
	r.out = close_fd(r.out);
	assert_int_equal(end(b, &r), FAULTD_OK);
	assert_string_equal(r.complained.data, "");
	done(&r);
}

/* Without a crash that it could try to write. */
static void a_follower_whom_nobody_reads_ends(void **state)
{
	struct bench *b = *state;
	struct run r;

	add_crash(b, "/a", "one", 0);
	begin(b, &r, ARGS("--socket", "@", "--follow"));
	expect(b, &r, "\n");
	r.out = close_fd(r.out);
	assert_int_equal(end(b, &r), FAULTD_OK);
	assert_string_equal(r.complained.data, "");
	done(&r);
}

/* A pager that shows one page for longer than the daemon has patience. */
static void a_slow_reader_of_ours_still_gets_all(void **state)
{
	struct bench *b = *state;
	struct run r;

	control_set_patience(b->control, 50 * NSEC_PER_MSEC);
	for (int i = 0; i < 1000; i++)
		add_crash(b, "/a", "one", 0);
	begin(b, &r, ARGS("--socket", "@", "--json"));
	for (uint64_t end_ns = clock_monotonic_ns() + 300 * NSEC_PER_MSEC; clock_monotonic_ns() < end_ns;)
		turn(b, 10);
	assert_int_equal(end(b, &r), FAULTD_OK);
	assert_int_equal(count_lines(r.said.data), 1000);
	done(&r);
}

static void bad_options_are_explained(void **state)
{
	static char long_glob[CONTROL_LINE_MAX + 10];
	struct bench *b = *state;

	memset(long_glob, 'x', sizeof(long_glob) - 1);
	long_glob[0] = '/';
	assert_run(b, ARGS("--since", "last week"), FAULTD_USAGE, "", "'today', 'yesterday'");
	assert_run(b, ARGS("--cgroup", "a.service"), FAULTD_USAGE, "", "must begin with / or **/");
	assert_run(b, ARGS("--cgroup", long_glob), FAULTD_USAGE, "", "too long");
	assert_run(b, ARGS("--color"), FAULTD_USAGE, "", "faultctl crashes: unrecognized option '--color'");
	assert_run(b, ARGS("more"), FAULTD_USAGE, "", "no argument 'more'");
	assert_run(b, ARGS("--socket", ""), FAULTD_USAGE, "", "1 to 107 bytes");
}

static void a_daemon_that_is_not_there_is_told(void **state)
{
	struct bench *b = *state;

	b->control = control_free(b->control);
	assert_run(b, ARGS("--socket", "@"), FAULTD_NO_RESOURCE, "", "is faultd running");
}

static void a_daemon_with_too_many_peers_is_told(void **state)
{
	struct bench *b = *state;
	int fds[CONTROL_PEERS_MAX];

	for (int i = 0; i < CONTROL_PEERS_MAX; i++)
		fds[i] = dial(b);
	assert_run(b, ARGS("--socket", "@"), FAULTD_FAILED, "", "too many connections");
	for (int i = 0; i < CONTROL_PEERS_MAX; i++)
		close(fds[i]);
}

static void who_may_not_is_told_who_may(void **state)
{
	struct bench *b = *state;

	if (geteuid() != 0) {
		puts("skipped: to become somebody else needs root");
		skip();
	}
	as_nobody = true;
	assert_run(b, ARGS("--socket", "@"), FAULTD_NO_PERMISSION, "", "the folder");
	assert_int_equal(chmod(b->folder, 0755), 0);
	assert_run(b, ARGS("--socket", "@"), FAULTD_NO_PERMISSION, "", "the group 'root'");
	assert_int_equal(chmod(b->path, 0666), 0);
	assert_run(b, ARGS("--socket", "@"), FAULTD_OK, "", "");
	as_nobody = false;
}

/* Whoever listens there: another program, or one that wants to play with the terminal. */
static void an_impostor_is_not_believed(void **state)
{
	static const struct {
		const char *says, *complaint;
		int code;
	} cases[] = {
	    {"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak as faultd does", FAULTD_FAILED},
	    {"", "without an answer", FAULTD_FAILED},
	    {"ok", "without an answer", FAULTD_FAILED},
	    {"error \x1b[2J\n", "refused: ?[2J", FAULTD_FAILED},
	};
	struct bench *b = *state;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	b->control = control_free(b->control);
	strcpy(a.sun_path, b->path);
	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct run r;
		char request[64];
		int fd;

		begin(b, &r, ARGS("--socket", "@", "--json"));
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		assert_int_equal(recv(fd, request, 20, MSG_WAITALL), 20);
		assert_int_equal(memcmp(request, "crashes format=json\n", 20), 0);
		assert_true(send(fd, cases[i].says, strlen(cases[i].says), MSG_NOSIGNAL) >= 0);
		close(fd);
		assert_int_equal(end(b, &r), cases[i].code);
		if (!strstr(r.complained.data, cases[i].complaint))
			fail_msg("%s", r.complained.data);
		done(&r);
	}
	close(listener);
	unlink(b->path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_bench, free_bench)
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(times_are_understood),
	    cmocka_unit_test(what_is_no_time_is_refused),
	    cmocka_unit_test(arguments_are_escaped_or_refused),
	    TEST(crashes_are_listed),
	    TEST(following_goes_on_until_the_daemon_ends),
	    TEST(it_ends_when_nobody_reads_any_more),
	    TEST(a_follower_whom_nobody_reads_ends),
	    TEST(a_slow_reader_of_ours_still_gets_all),
	    TEST(bad_options_are_explained),
	    TEST(a_daemon_that_is_not_there_is_told),
	    TEST(a_daemon_with_too_many_peers_is_told),
	    TEST(who_may_not_is_told_who_may),
	    TEST(an_impostor_is_not_believed),
	};

	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	return cmocka_run_group_tests_name("ctl", tests, NULL, NULL);
}
