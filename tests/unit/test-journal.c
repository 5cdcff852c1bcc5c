/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries are read back from a socket in the place of journald's, by the rules of its native protocol.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/utf8.h"
#include "daemon/sink/journal.h"
#include "tests/unit/crash-fixture.h"

#define FIELDS_MAX 64
#define ID64 "89f4f2cb511c3b0b7e5272cff5ec37bf89f4f2cb511c3b0b7e5272cff5ec37bf"

DEFINE_CLEANUP(journal_of_test, struct journal *, journal_free)
#define auto_journal cleanup(journal_of_test) struct journal

struct field {
	char *key, *value;
	size_t len;
	bool is_binary;
};

struct fixture {
	char folder[32], path[64];
	int fd; /* journald's */
	struct field fields[FIELDS_MAX];
	size_t n_fields;
};

/* ---- journald ---- */

static int listen_at(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->folder, P_tmpdir "/test-journal-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/socket", f->folder);
	f->fd = listen_at(f->path);
	*state = f;
	return 0;
}

static void forget(struct fixture *f)
{
	while (f->n_fields > 0) {
		f->n_fields--;
		free(f->fields[f->n_fields].key);
		free(f->fields[f->n_fields].value);
	}
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	forget(f);
	close_fd(f->fd);
	unlink(f->path);
	rmdir(f->folder);
	free(f);
	return 0;
}

/* A key as journald takes it: capitals, digits and underscores, none of the latter in front, at most 64. */
static void assert_key(const char *key)
{
	assert_true(strlen(key) >= 1 && strlen(key) <= 64);
	assert_int_equal(strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"), strlen(key));
	assert_true(key[0] >= 'A' && key[0] <= 'Z');
}

static void add_field(struct fixture *f, const char *key, size_t key_len, const char *value, size_t len, bool is_binary)
{
	struct field *field = &f->fields[f->n_fields++];

	assert_true(f->n_fields <= FIELDS_MAX);
	*field = (struct field){
	    .key = strndup(key, key_len), .value = strndup(value, len), .len = len, .is_binary = is_binary};
	assert_key(field->key);
	assert_int_equal(strlen(field->value), len);
}

static void parse(struct fixture *f, const char *at, const char *end)
{
	while (at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at)), *equals;
		uint64_t len;

		assert_non_null(line_end);
		equals = memchr(at, '=', (size_t)(line_end - at));
		if (equals) {
			add_field(f, at, (size_t)(equals - at), equals + 1, (size_t)(line_end - equals - 1), false);
			at = line_end + 1;
			continue;
		}
		assert_true(end - line_end > 8);
		memcpy(&len, line_end + 1, 8);
		len = le64toh(len);
		assert_true(len < (uint64_t)(end - line_end - 9));
		add_field(f, at, (size_t)(line_end - at), line_end + 9, len, true);
		assert_int_equal(line_end[9 + len], '\n');
		at = line_end + 10 + len;
	}
}

static void receive(struct fixture *f)
{
	static char bytes[1 << 20];
	struct iovec iov = {bytes, sizeof(bytes)};
	char control[256];
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(f->fd, &m, MSG_DONTWAIT);

	forget(f);
	assert_true(n > 0);
	assert_int_equal(m.msg_flags & MSG_TRUNC, 0);
	assert_int_equal(m.msg_controllen, 0); /* no descriptor instead of bytes */
	parse(f, bytes, bytes + n);
}

static const char *value_of(const struct fixture *f, const char *key)
{
	const char *value = NULL;

	for (size_t i = 0; i < f->n_fields; i++)
		if (strcmp(f->fields[i].key, key) == 0) {
			assert_null(value);
			value = f->fields[i].value;
		}
	return value;
}

static void assert_field(const struct fixture *f, const char *key, const char *expected)
{
	const char *value = value_of(f, key);

	if (!expected && value)
		fail_msg("%s is there: %s", key, value);
	if (expected && (!value || strcmp(value, expected) != 0))
		fail_msg("%s is %s, not %s", key, value ? value : "missing", expected);
}

static struct journal *open_journal(const struct fixture *f)
{
	struct journal *j = NULL;

	assert_int_equal(journal_new(f->path, &j), 0);
	return j;
}

/* ---- entries ---- */

static void an_entry_has_its_fields(void **state)
{
	struct fixture *f = *state;
	struct crash_event e = crash_event_make();
	auto_journal *j = open_journal(f);
	auto_crash *c = NULL;

	e.n_frames = 3;
	c = crash_of(&e);
	c->fingerprint = 0xabc;
	assert_int_equal(journal_crash(j, c, false), 0);
	receive(f);
	assert_field(f, "MESSAGE",
		     "myapp[4711, 7 inside] of myapp.service: SIGSEGV (maperr), write to the null page, fingerprint "
		     "0000000000000abc");
	assert_field(f, "MESSAGE_ID", "2a75882401404c0f8bb52c551a0ba781");
	assert_field(f, "PRIORITY", "3");
	assert_field(f, "SYSLOG_IDENTIFIER", "faultd");
	assert_field(f, "OBJECT_PID", "4711");
	assert_field(f, "FAULTD_CGROUP", "/system.slice/myapp.service");
	assert_field(f, "FAULTD_UNIT", "myapp.service");
	assert_field(f, "FAULTD_PID", "4711");
	assert_field(f, "FAULTD_TID", "4712");
	assert_field(f, "FAULTD_PID_INSIDE", "7");
	assert_field(f, "FAULTD_UID", "1000");
	assert_field(f, "FAULTD_COMM", "myapp");
	assert_field(f, "FAULTD_EXE", "/usr/bin/myapp");
	assert_field(f, "FAULTD_SIGNAL", "SIGSEGV");
	assert_field(f, "FAULTD_CODE", "maperr");
	assert_field(f, "FAULTD_SI_CODE", "1");
	assert_field(f, "FAULTD_ACCESS", "write");
	assert_field(f, "FAULTD_KIND", "missing");
	assert_field(f, "FAULTD_ADDRESS_CLASS", "null page");
	assert_field(f, "FAULTD_FINGERPRINT", "0000000000000abc");
	assert_field(f, "FAULTD_FRAMES", "#0 dead000000000000000000000000000000000001+0x1000\n#1 program+0x123\n#2 ?");
	assert_field(f, "FAULTD_CORE", "unknown");
	assert_field(f, "FAULTD_SUPPRESSED", "0");
	assert_int_equal(f->n_fields, 23); /* and no other */
}

static void addresses_only_if_asked_for(void **state)
{
	struct fixture *f = *state;
	struct crash_event e = crash_event_make();
	auto_journal *j = open_journal(f);
	auto_crash *c = crash_of(&e), *without = NULL;

	assert_int_equal(journal_crash(j, c, true), 0);
	receive(f);
	assert_field(f, "FAULTD_ADDRESS", "0x1234");
	assert_field(f, "FAULTD_IP", "0x401000");
	assert_field(f, "FAULTD_SP", "0x7ffc00001000");
	assert_field(f, "FAULTD_ERROR_CODE", "0x6");
	e.flags = 0;
	without = crash_of(&e);
	assert_int_equal(journal_crash(j, without, true), 0);
	receive(f);
	assert_field(f, "FAULTD_ADDRESS", NULL);
	assert_field(f, "FAULTD_ERROR_CODE", NULL);
	assert_field(f, "FAULTD_ACCESS", NULL);
	assert_field(f, "FAULTD_KIND", NULL);
	assert_field(f, "FAULTD_IP", "0x401000");
}

static void containers_and_senders_are_named(void **state)
{
	struct fixture *f = *state;
	struct crash_event e = crash_event_make();
	auto_journal *j = open_journal(f);
	auto_crash *c = NULL;

	e.class = SEGV(BAD_CODE_SENT(BAD_CODES_SEGV));
	e.code = -6;
	e.sender_tgid = 815;
	e.n_frames = 0;
	e.exe[0] = '\0';
	c = crash_in("/kubepods/burstable/pod74ba62da-1a3d-11e7-bb11-080027cb0e22/" ID64, &e);
	c->core = CRASH_CORE_WRITTEN;
	c->suppressed = 12;
	assert_int_equal(journal_crash(j, c, false), 0);
	receive(f);
	assert_field(f, "FAULTD_UNIT", NULL);
	assert_field(f, "FAULTD_EXE", NULL);
	assert_field(f, "FAULTD_FRAMES", NULL);
	assert_field(f, "FAULTD_CONTAINER_ID", ID64);
	assert_field(f, "FAULTD_POD_UID", "74ba62da-1a3d-11e7-bb11-080027cb0e22");
	assert_field(f, "FAULTD_SENDER_PID", "815");
	assert_field(f, "FAULTD_SI_CODE", "-6");
	assert_field(f, "FAULTD_CORE", "written");
	assert_field(f, "FAULTD_SUPPRESSED", "12");
}

/* A name may hold what looks like another field. */
static void a_value_with_line_ends_stays_one_value(void **state)
{
	struct fixture *f = *state;
	struct crash_event e = crash_event_make();
	auto_journal *j = open_journal(f);
	auto_crash *c = NULL;

	strcpy(e.comm, "a\nPRIORITY=0");
	strcpy(e.exe, "\n\n\n");
	c = crash_in("/a\nMESSAGE_ID=0", &e);
	assert_int_equal(journal_crash(j, c, true), 0);
	receive(f);
	assert_field(f, "FAULTD_COMM", "a\nPRIORITY=0");
	assert_field(f, "FAULTD_EXE", "\n\n\n");
	assert_field(f, "FAULTD_CGROUP", "/a\nMESSAGE_ID=0");
	assert_field(f, "PRIORITY", "3");
	assert_null(strchr(value_of(f, "MESSAGE"), '\n'));
}

static void any_bytes_make_an_entry(void **state)
{
	struct fixture *f = *state;
	auto_journal *j = open_journal(f);

	for (unsigned fill = 0; fill < 256; fill++) {
		struct crash_event e;
		auto_crash *c = NULL;

		memset(&e, (int)fill, sizeof(e));
		c = crash_of(&e);
		assert_int_equal(journal_crash(j, c, true), 0);
		receive(f);
		for (size_t i = 0; i < f->n_fields; i++)
			assert_true(utf8_valid(f->fields[i].value, f->fields[i].len));
	}
}

/* A cgroup path can be longer than any value may be. */
static void an_entry_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct crash_event e = crash_event_make();
	auto_journal *j = open_journal(f);
	size_t len = 3 << 20;
	auto_free char *path = malloc(len + 1);
	auto_crash *c = NULL;

	for (size_t i = 0; i < len; i++)
		path[i] = "\xe2\x82\xac"[i % 3]; /* three bytes a character, so that a cut could split one */
	path[0] = '/';
	path[1] = path[2] = 'a';
	path[len] = '\0';
	c = crash_in(path, &e);
	assert_int_equal(journal_crash(j, c, true), 0);
	receive(f);
	for (size_t i = 0; i < f->n_fields; i++) {
		assert_true(f->fields[i].len <= JOURNAL_VALUE_MAX);
		assert_true(utf8_valid(f->fields[i].value, f->fields[i].len));
	}
	assert_in_range(strlen(value_of(f, "FAULTD_CGROUP")), JOURNAL_VALUE_MAX - 2, JOURNAL_VALUE_MAX);
}

/* ---- socket ---- */

static void a_full_journal_is_told_at_once(void **state)
{
	struct fixture *f = *state;
	struct crash_event e = crash_event_make();
	auto_journal *j = open_journal(f);
	auto_crash *c = crash_of(&e);
	int taken = 0, r;

	/* A call that waits would never come back: nobody reads meanwhile. */
	alarm(60);
	for (r = 0; r == 0 && taken < 100000; taken += r == 0)
		r = journal_crash(j, c, true);
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(journal_crash(j, c, true), -EAGAIN);
	alarm(0);
	assert_true(taken > 0);
	for (int i = 0; i < taken; i++)
		receive(f);
	assert_int_equal(recv(f->fd, &(char){0}, 1, MSG_DONTWAIT), -1); /* nothing but whole entries */
	assert_int_equal(journal_crash(j, c, true), 0);
	receive(f);
}

static void a_restarted_journald_is_found_again(void **state)
{
	struct fixture *f = *state;
	struct crash_event e = crash_event_make();
	auto_journal *j = open_journal(f);
	auto_crash *c = crash_of(&e);

	f->fd = close_fd(f->fd);
	assert_int_equal(journal_crash(j, c, false), -ECONNREFUSED);
	unlink(f->path);
	assert_int_equal(journal_crash(j, c, false), -ENOENT);
	f->fd = listen_at(f->path);
	assert_int_equal(journal_crash(j, c, false), 0);
	receive(f);
}

static void without_a_journal_there_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct journal *j = NULL;
	char path[200];

	f->fd = close_fd(f->fd);
	assert_int_equal(journal_new(f->path, &j), -ECONNREFUSED);
	unlink(f->path);
	assert_int_equal(journal_new(f->path, &j), -ENOENT);
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(journal_new(path, &j), -ENAMETOOLONG);
	assert_null(j);
	assert_null(journal_free(NULL));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(an_entry_has_its_fields),
	    TEST(addresses_only_if_asked_for),
	    TEST(containers_and_senders_are_named),
	    TEST(a_value_with_line_ends_stays_one_value),
	    TEST(any_bytes_make_an_entry),
	    TEST(an_entry_is_bounded),
	    TEST(a_full_journal_is_told_at_once),
	    TEST(a_restarted_journald_is_found_again),
	    TEST(without_a_journal_there_is_an_error),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
