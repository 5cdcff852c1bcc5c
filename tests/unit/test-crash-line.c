/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/utf8.h"
#include "daemon/sink/crash_line.h"
#include "tests/unit/crash-fixture.h"

#define DIGEST "89f4f2cb511c3b0b7e5272cff5ec37bf89f4f2cb511c3b0b7e5272cff5ec37bf"

static void set_exe(struct crash *c, const char *exe)
{
	free(c->exe);
	c->exe = strdup(exe);
}

static struct crash *numbered(const struct crash_event *e)
{
	struct crash *c = crash_of(e);

	c->number = 42;
	c->fingerprint = 0x123456789abcdef;
	return c;
}

static void assert_text(const struct crash *c, bool addresses, const char *expected)
{
	auto_strbuf out = {0};

	crash_line_text(c, addresses, &out);
	assert_string_equal(out.data, expected);
}

static void assert_json(const struct crash *c, bool addresses, const char *expected)
{
	auto_strbuf out = {0};

	crash_line_json(c, addresses, &out);
	assert_string_equal(out.data, expected);
}

/* ---- text ---- */

/* Two hours ahead of UTC. */
#define TIME "2026-08-01 16:04:05.123 "
#define MYAPP TIME "myapp.service myapp[4711, 7 inside]: "
#define IN ", in dead000000000000000000000000000000000001+0x1000"
#define FINGERPRINT ", fingerprint 0123456789abcdef"

static void a_line_for_people(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = numbered(&e);

	assert_text(c, false, MYAPP "SIGSEGV (maperr), write to the null page" IN FINGERPRINT "\n");
	assert_text(c, true,
		    MYAPP "SIGSEGV (maperr), write to the null page at 0x1234" IN
			  ", ip 0x401000 sp 0x7ffc00001000" FINGERPRINT "\n");
	c->pid_inside = c->pid;
	c->core = CRASH_CORE_WRITTEN;
	c->suppressed = 41;
	c->collapsed = true;
	c->frames[0].in = CRASH_IN_NOTHING;
	assert_text(c, false,
		    TIME
		    "myapp.service myapp[4711]: SIGSEGV (maperr), write to the null page, in program+0x123, after its "
		    "handler was entered, core written" FINGERPRINT ", 41 before it without a record\n");
}

static void a_line_says_what_was_accessed(void **state)
{
	static const struct {
		uint32_t class;
		uint64_t address, error_code, sp, trap;
		const char *expected;
	} cases[] = {
	    {SEGV(1), 0x7f0000000000, 4, 0, 14, "SIGSEGV (maperr), read of unmapped memory"},
	    {SEGV(1), 0x7f0000000000, 0x14, 0, 14, "SIGSEGV (maperr), jump to unmapped memory"},
	    {SEGV(1), 0xffff800000000000, 5, 0, 14, "SIGSEGV (maperr), read of the kernel's half"},
	    {SEGV(1), 0x7f0000000000, 6, 0x7f0000000008, 14,
	     "SIGSEGV (maperr), write to the stack's guard (stack exhausted)"},
	    {SEGV(2), 0x7f0000000000, 7, 0, 14, "SIGSEGV (accerr), write: the mapping does not allow the access"},
	    {SEGV(BAD_CODE_KERNEL(BAD_CODES_SEGV)), 0, 0, 0, 13, "SIGSEGV (kernel), access to a non-canonical address"},
	    {BUS(2), 0x7f0000000000, 4, 0, 14,
	     "SIGBUS (adrerr), read: no memory behind the mapping, as past the end of its file"},
	    {BAD_BASE_ILL + 1, 0, 0, 0, 6, "SIGILL (illopc), illegal opcode"},
	    {4711, 0, 0, 0, 0, "unknown (unknown), unknown"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct crash_event e = crash_event_make();
		auto_crash *c = NULL;
		char expected[512];

		e.class = cases[i].class;
		e.address = cases[i].address;
		e.error_code = cases[i].error_code;
		e.sp = cases[i].sp;
		e.trap = cases[i].trap;
		c = numbered(&e);
		snprintf(expected, sizeof(expected), MYAPP "%s" IN FINGERPRINT "\n", cases[i].expected);
		assert_text(c, false, expected);
	}
}

static void a_sent_signal_names_its_sender(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = NULL;

	e.class = SEGV(BAD_CODE_SENT(BAD_CODES_SEGV));
	e.flags = 0;
	e.sender_tgid = 815;
	c = numbered(&e);
	assert_text(c, false, MYAPP "SIGSEGV (sent), sent by a process (815)" IN FINGERPRINT "\n");
}

static void without_a_unit_the_cgroup_is_named(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = NULL;

	e.comm[0] = '\0';
	e.n_frames = 0;
	e.tgid_inside = e.head.tgid;
	c = crash_in("/a/b", &e);
	c->fingerprint = 0x123456789abcdef;
	assert_text(c, false, TIME "/a/b ?[4711]: SIGSEGV (maperr), write to the null page" FINGERPRINT "\n");
}

static void a_message_is_one_sentence_without_addresses(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = numbered(&e);
	auto_strbuf out = {0};

	crash_line_message(c, &out);
	assert_string_equal(
	    out.data, "myapp[4711, 7 inside] of myapp.service: SIGSEGV (maperr), write to the null page" FINGERPRINT);
}

/* ---- JSON ---- */

#define HEAD                                                                                                      \
	"{\"number\":42,\"time\":\"2026-08-01T14:04:05.123456789Z\",\"time_unix_ns\":1785593045123456789,"        \
	"\"cgroup\":\"/system.slice/myapp.service\",\"unit\":\"myapp.service\",\"slice\":\"system.slice\","       \
	"\"pid\":4711,\"tid\":4712,\"pid_inside\":7,\"tid_inside\":8,\"uid\":1000,\"comm\":\"myapp\","            \
	"\"exe\":\"/usr/bin/myapp\",\"signal\":\"SIGSEGV\",\"code\":\"maperr\","                                  \
	"\"code_meaning\":\"no mapping at the address\",\"si_code\":1,\"outcome\":\"fatal\",\"collapsed\":false," \
	"\"access\":\"write\",\"kind\":\"missing\",\"error_code\":\"0x6\",\"address_class\":\"null page\","
#define TAIL                                                                                                           \
	"\"fingerprint\":\"0123456789abcdef\",\"frames\":[{\"build_id\":\"dead000000000000000000000000000000000001\"," \
	"\"offset\":\"0x1000\"},{\"program\":true,\"offset\":\"0x123\"}],\"suppressed\":0}\n"

static void an_object_of_json(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = numbered(&e);

	assert_json(c, false, HEAD TAIL);
	assert_json(c, true, HEAD "\"address\":\"0x1234\",\"ip\":\"0x401000\",\"sp\":\"0x7ffc00001000\"," TAIL);
}

static void json_leaves_out_what_is_not_known(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = NULL;

	e.class = SEGV(BAD_CODE_SENT(BAD_CODES_SEGV));
	e.code = -6;
	e.flags = CRASH_HAS_ADDRESS | CRASH_COLLAPSED;
	e.sender_tgid = 815;
	e.comm[0] = e.exe[0] = '\0';
	e.n_frames = 0;
	c = crash_in("/docker/" DIGEST, &e);
	c->fingerprint = 0xf;
	c->core = CRASH_CORE_NONE;
	c->suppressed = UINT64_MAX;
	assert_json(c, true,
		    "{\"number\":0,\"time\":\"2026-08-01T14:04:05.123456789Z\",\"time_unix_ns\":1785593045123456789,"
		    "\"cgroup\":\"/docker/" DIGEST "\",\"runtime\":\"docker\",\"container_id\":\"" DIGEST "\","
		    "\"pid\":4711,\"tid\":4712,\"pid_inside\":7,\"tid_inside\":8,\"uid\":1000,\"signal\":\"SIGSEGV\","
		    "\"code\":\"sent\",\"code_meaning\":\"sent by a process\",\"si_code\":-6,\"outcome\":\"fatal\","
		    "\"collapsed\":true,\"sender_pid\":815,\"address_class\":\"none\",\"ip\":\"0x401000\","
		    "\"sp\":\"0x7ffc00001000\",\"fingerprint\":\"000000000000000f\",\"core\":\"none\","
		    "\"suppressed\":18446744073709551615}\n");
}

static void times_beyond_reason_are_times(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = numbered(&e);
	auto_strbuf out = {0};

	c->time_unix_ns = UINT64_MAX;
	crash_line_json(c, false, &out);
	assert_non_null(strstr(out.data, "\"time\":\"2554-07-21T23:34:33.709551615Z\"")); /* by date(1) */
	strbuf_reset(&out);
	c->time_unix_ns = 5;
	crash_line_json(c, false, &out);
	assert_non_null(strstr(out.data, "\"time\":\"1970-01-01T00:00:00.000000005Z\""));
}

/* ---- hostile names ---- */

/* Escape sequence, line end, backspace, C1 control (CSI), right-to-left override, line separator, quote, backslash,
 * invalid bytes. */
#define HOSTILE "a\x1b[2Jb\nc\bd\xc2\x9bx\xe2\x80\xaey\xe2\x80\xa8g\"h\\i\xff\xc0\x80j\xc3\xa9"
#define HOSTILE_SHOWN "a\\x1b[2Jb\\x0ac\\x08d\\x9bx\\u202ey\\u2028g\"h\\i\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdj\xc3\xa9"
#define HOSTILE_JSON                                                                                          \
	"a\\u001b[2Jb\\u000ac\\u0008d\\u009bx\\u202ey\\u2028g\\\"h\\\\i\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdj" \
	"\xc3\xa9"

static void names_cannot_fool_a_terminal(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = NULL;
	auto_strbuf out = {0};

	e.n_frames = 0;
	c = crash_in("/x\x1b]0;\n.service/" HOSTILE, &e);
	free(c->comm);
	c->comm = strdup(HOSTILE);
	set_exe(c, HOSTILE);
	crash_line_text(c, true, &out);
	crash_line_message(c, &out);
	assert_non_null(strstr(out.data, " " HOSTILE_SHOWN "[4711"));
	strbuf_reset(&out);
	crash_line_json(c, true, &out);
	assert_non_null(strstr(out.data, "\"comm\":\"" HOSTILE_JSON "\""));
	assert_non_null(strstr(out.data, "\"exe\":\"" HOSTILE_JSON "\""));
}

/* A line of any bytes: one line end, at the end, and nothing that steers. */
static void assert_harmless(const struct strbuf *line)
{
	assert_int_equal(strbuf_error(line), 0);
	assert_true(utf8_valid(line->data, line->len));
	assert_ptr_equal(strchr(line->data, '\n'), line->data + line->len - 1);
	for (const char *s = line->data; s < line->data + line->len - 1; s++)
		assert_true((unsigned char)*s >= 0x20 && *s != 0x7f);
}

static void any_bytes_give_one_harmless_line(void **state)
{
	for (unsigned fill = 0; fill < 256; fill++) {
		char cgroup[64] = "/";
		struct crash_event e;
		auto_crash *c = NULL;
		auto_strbuf text = {0}, json = {0};

		memset(&e, (int)fill, sizeof(e));
		memset(cgroup + 1, fill && fill != '/' ? (int)fill : 'x', 50);
		c = crash_in(cgroup, &e);
		crash_line_text(c, true, &text);
		crash_line_json(c, true, &json);
		assert_harmless(&text);
		assert_harmless(&json);
	}
}

/* All of it by somebody else's parser, which refuses what RFC 8259 does not allow; each object has its cgroup back. */
static void another_parser_reads_the_json(void **state)
{
	static const char script[] =
	    "/usr/bin/python3 -c 'import json, sys\n"
	    "def once(pairs):\n"
	    " assert len(dict(pairs)) == len(pairs), pairs\n"
	    " return dict(pairs)\n"
	    "lines = [json.loads(l, object_pairs_hook=once) for l in "
	    "sys.stdin.buffer.read().decode().split(chr(10))[:-1]]\n"
	    "assert [l[\"number\"] for l in lines] == list(range(1, 256)), len(lines)\n"
	    "assert all(l[\"cgroup\"] == \"/\" + chr(l[\"number\"]) + \"z\" for l in lines if l[\"number\"] < 128 and "
	    "l[\"number\"] != 47)\n"
	    "assert all(l.get(\"exe\") for l in lines)'";
	FILE *python = popen(script, "w");

	assert_non_null(python);
	for (unsigned fill = 1; fill < 256; fill++) {
		char cgroup[] = {'/', (char)fill, 'z', '\0'};
		struct crash_event e;
		auto_crash *c = NULL;
		auto_strbuf json = {0};

		memset(&e, (int)fill, sizeof(e));
		c = crash_in(cgroup, &e);
		c->number = fill;
		crash_line_json(c, true, &json);
		fputs(json.data, python);
	}
	assert_int_equal(pclose(python), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_line_for_people),
	    cmocka_unit_test(a_line_says_what_was_accessed),
	    cmocka_unit_test(a_sent_signal_names_its_sender),
	    cmocka_unit_test(without_a_unit_the_cgroup_is_named),
	    cmocka_unit_test(a_message_is_one_sentence_without_addresses),
	    cmocka_unit_test(an_object_of_json),
	    cmocka_unit_test(json_leaves_out_what_is_not_known),
	    cmocka_unit_test(times_beyond_reason_are_times),
	    cmocka_unit_test(names_cannot_fool_a_terminal),
	    cmocka_unit_test(any_bytes_give_one_harmless_line),
	    cmocka_unit_test(another_parser_reads_the_json),
	};

	setenv("TZ", "TEST-2", 1);
	tzset();
	return cmocka_run_group_tests_name("crash-line", tests, NULL, NULL);
}
