/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/bad_access_class.h"
#include "bpf/fault_abi.h"
#include "daemon/base/cleanup.h"
#include "daemon/ctl/trace_line.h"

static const struct trace_record write_fault = {
    .type = TRACE_FAULT,
    .flags = TRACE_HAS_ADDRESS | TRACE_HAS_ERROR_CODE,
    .time_ns = 12345678901999,
    .tgid = 4711,
    .tid = 4711,
    .cpu = 3,
    .mode = FAULT_USER,
    .address = 0xcafe0000,
    .ip = 0x4008e4,
    .error_code = 6,
    .comm = "workload",
};
static const struct symbol_place in_main = {
    .symbol = "main", .symbol_offset = 0x24, .module = "/bin/workload", .module_offset = 0x8e4, .has_offset = true};
static const struct symbol_place nowhere = {0};

static void assert_text(const struct trace_record *r, const struct symbol_place *place, const char *cgroup,
			const char *want)
{
	auto_strbuf out = {0};

	trace_line_text(&out, FAULT_ARCH_X86, r, place, cgroup);
	assert_string_equal(out.data, want);
}

static void assert_json(const struct trace_record *r, const struct symbol_place *place, const char *cgroup,
			const char *want)
{
	auto_strbuf out = {0};

	trace_line_json(&out, FAULT_ARCH_X86, r, place, cgroup);
	assert_string_equal(out.data, want);
}

static void a_fault_reads_like_perf_script(void **state)
{
	assert_text(&write_fault, &in_main, NULL,
		    "        workload    4711 [003] 12345.678901: page_fault_user address=0xcafe0000 ip=0x4008e4 "
		    "error_code=0x6 (user write, missing) WRITE|USER main+0x24 (/bin/workload)\n");
}

static void a_thread_and_a_cgroup_are_named(void **state)
{
	struct trace_record r = write_fault;
	struct symbol_place place = {.module = "libc.so.6", .module_offset = 0x1f, .has_offset = true};

	r.tid = 4712;
	r.time_ns = 5;
	assert_text(&r, &place, "/a.slice/b c",
		    "        workload 4711/4712 [003]     0.000000: page_fault_user address=0xcafe0000 ip=0x4008e4 "
		    "error_code=0x6 (user write, missing) WRITE|USER libc.so.6+0x1f cgroup=/a.slice/b c\n");
}

static void what_is_not_known_is_said(void **state)
{
	struct trace_record r = write_fault;

	r.mode = FAULT_KERNEL;
	r.error_code = 0;
	assert_text(&r, &nowhere, NULL,
		    "        workload    4711 [003] 12345.678901: page_fault_kernel address=0xcafe0000 ip=0x4008e4 "
		    "error_code=0x0 (kernel read, missing) [unknown]\n");
}

/* The USER bit is clear for what the processor itself reads and writes while it runs a program. */
static void the_mode_is_where_the_fault_was_taken(void **state)
{
	struct trace_record r = write_fault;

	r.error_code = 2;
	assert_text(&r, &nowhere, NULL,
		    "        workload    4711 [003] 12345.678901: page_fault_user address=0xcafe0000 ip=0x4008e4 "
		    "error_code=0x2 (user write, missing) WRITE [unknown]\n");
	r.flags = TRACE_HAS_ERROR_CODE;
	assert_json(&r, &nowhere, NULL,
		    "{\"comm\":\"workload\",\"pid\":4711,\"tid\":4711,\"cpu\":3,\"time\":12345.678901,"
		    "\"event\":\"page_fault_user\",\"ip\":\"0x4008e4\",\"error_code\":\"0x2\",\"mode\":\"user\","
		    "\"access\":\"write\",\"kind\":\"missing\",\"details\":\"WRITE\"}\n");
}

static struct trace_record bad_record(void)
{
	struct trace_record r = write_fault;

	r.type = TRACE_BAD;
	r.class = bad_class(BAD_SEGV, 1, 0);
	r.outcome = BAD_FATAL;
	r.address = 0;
	return r;
}

static void a_bad_access_tells_signal_code_and_outcome(void **state)
{
	struct trace_record r = bad_record();

	assert_text(
	    &r, &in_main, NULL,
	    "        workload    4711 [003] 12345.678901: bad_access SIGSEGV code=maperr address=0x0 ip=0x4008e4 "
	    "outcome=fatal error_code=0x6 (user write, missing) WRITE|USER main+0x24 (/bin/workload)\n");
	r.flags = 0;
	r.class = bad_class(BAD_BUS, 0, 1);
	r.outcome = BAD_HANDLED;
	assert_text(
	    &r, &(struct symbol_place){.module = "[vdso]"}, NULL,
	    "        workload    4711 [003] 12345.678901: bad_access SIGBUS code=sent ip=0x4008e4 outcome=handled "
	    "[vdso]\n");
	r.class = 9999;
	assert_text(
	    &r, &nowhere, NULL,
	    "        workload    4711 [003] 12345.678901: bad_access unknown code=unknown ip=0x4008e4 outcome=handled "
	    "[unknown]\n");
}

static void json_has_the_same_fields(void **state)
{
	struct trace_record r = bad_record();

	assert_json(&write_fault, &in_main, "/a",
		    "{\"comm\":\"workload\",\"pid\":4711,\"tid\":4711,\"cpu\":3,\"time\":12345.678901,"
		    "\"event\":\"page_fault_user\",\"address\":\"0xcafe0000\",\"ip\":\"0x4008e4\",\"symbol\":\"main\","
		    "\"symbol_offset\":\"0x24\",\"module\":\"/bin/"
		    "workload\",\"module_offset\":\"0x8e4\",\"error_code\":\"0x6\","
		    "\"mode\":\"user\",\"access\":\"write\",\"kind\":\"missing\",\"details\":\"WRITE|USER\",\"cgroup\":"
		    "\"/a\"}\n");
	r.flags = 0;
	assert_json(&r, &nowhere, NULL,
		    "{\"comm\":\"workload\",\"pid\":4711,\"tid\":4711,\"cpu\":3,\"time\":12345.678901,"
		    "\"event\":\"bad_access\",\"signal\":\"SIGSEGV\",\"code\":\"maperr\",\"outcome\":\"fatal\","
		    "\"ip\":\"0x4008e4\"}\n");
}

/* Whoever is traced chooses these bytes. */
static void names_cannot_drive_the_terminal(void **state)
{
	struct trace_record r = write_fault;
	struct symbol_place place = {.symbol = "f\x1b[2J\nx",
				     .module = "/tmp/\xe2\x80\xae"
					       "c\xc2\x9b\\"};

	r.flags = 0;
	memcpy(r.comm, "\x1b]0;\"\\\xff\xc3\xa9\n\x7f", 12);
	assert_text(&r, &place, "/\t\xc3",
		    "\\x1b]0;\"\\\\\\xff\xc3\xa9\\x0a\\x7f    4711 [003] 12345.678901: page_fault_user ip=0x4008e4 "
		    "f\\x1b[2J\\x0ax+0x0 (/tmp/\\xe2\\x80\\xaec\\xc2\\x9b\\\\) cgroup=/\\x09\\xc3\n");
	assert_json(
	    &r, &place, "/\t\xc3",
	    "{\"comm\":\"\\u001b]0;\\\"\\\\\xef\xbf\xbd\xc3\xa9\\u000a\\u007f\",\"pid\":4711,\"tid\":4711,\"cpu\":3,"
	    "\"time\":12345.678901,\"event\":\"page_fault_user\",\"ip\":\"0x4008e4\","
	    "\"symbol\":\"f\\u001b[2J\\u000ax\",\"symbol_offset\":\"0x0\",\"module\":\"/tmp/\\u202ec\\u009b\\\\\","
	    "\"cgroup\":\"/\\u0009\xef\xbf\xbd\"}\n");
}

static void a_name_of_full_length_ends(void **state)
{
	struct trace_record r = write_fault;
	auto_strbuf out = {0};

	memset(r.comm, 'x', sizeof(r.comm));
	trace_line_text(&out, FAULT_ARCH_X86, &r, &nowhere, NULL);
	assert_memory_equal(out.data, "xxxxxxxxxxxxxxxx    4711", 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_fault_reads_like_perf_script),
	    cmocka_unit_test(a_thread_and_a_cgroup_are_named),
	    cmocka_unit_test(what_is_not_known_is_said),
	    cmocka_unit_test(the_mode_is_where_the_fault_was_taken),
	    cmocka_unit_test(a_bad_access_tells_signal_code_and_outcome),
	    cmocka_unit_test(json_has_the_same_fields),
	    cmocka_unit_test(names_cannot_drive_the_terminal),
	    cmocka_unit_test(a_name_of_full_length_ends),
	};
	return cmocka_run_group_tests_name("trace-line", tests, NULL, NULL);
}
