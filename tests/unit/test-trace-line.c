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

/* ---- meanings ---- */

struct meaning_case {
	uint32_t mode;
	uint64_t code;
	const char *access, *kind, *details;
};

static void check_meanings(enum trace_arch arch, const struct meaning_case *cases, size_t n)
{
	struct trace_meaning m;

	for (size_t i = 0; i < n; i++) {
		const char *mode = cases[i].mode == FAULT_USER ? "user" : "kernel";

		trace_meaning(arch, cases[i].mode, cases[i].code, &m);
		if (strcmp(m.mode, mode) || strcmp(m.access, cases[i].access) || strcmp(m.kind, cases[i].kind) ||
		    strcmp(m.details, cases[i].details))
			fail_msg("0x%llx: %s %s %s %s", (unsigned long long)cases[i].code, m.mode, m.access, m.kind,
				 m.details);
	}
}

/* Bits after the Intel SDM, vol. 3, "Page-fault exceptions"; names after the kernel's trap_pf.h. */
static void x86_codes(void **state)
{
	static const struct meaning_case cases[] = {
	    {FAULT_KERNEL, 0x0, "read", "missing", ""},
	    {FAULT_USER, 0x4, "read", "missing", "USER"},
	    {FAULT_USER, 0x6, "write", "missing", "WRITE|USER"},
	    {FAULT_USER, 0x7, "write", "protection", "PROT|WRITE|USER"},
	    {FAULT_KERNEL, 0x3, "write", "protection", "PROT|WRITE"},
	    {FAULT_USER, 0x15, "exec", "protection", "PROT|USER|INSTR"},
	    {FAULT_USER, 0x25, "read", "other", "PROT|USER|PK"},
	    {FAULT_USER, 0xd, "read", "other", "PROT|USER|RSVD"},
	    {FAULT_USER, 0x47, "write", "protection", "PROT|WRITE|USER|SHSTK"},
	    {FAULT_USER, 0x8007, "write", "other", "PROT|WRITE|USER|SGX"},
	    {FAULT_USER, 0x80000007, "write", "other", "PROT|WRITE|USER|RMP"},
	    {FAULT_USER, 0x86, "write", "missing", "WRITE|USER|0x80"},
	    {FAULT_KERNEL, 0x100000006, "write", "missing", "WRITE|USER|0x100000000"},
	    {FAULT_USER, UINT64_MAX, "exec", "other", "PROT|WRITE|USER|RSVD|INSTR|PK|SHSTK|SGX|RMP|0xffffffff7fff7f80"},
	};

	check_meanings(TRACE_X86, cases, ARRAY_SIZE(cases));
}

/* ESR_EL1 values that real machines reported for known accesses, and others put together after the Arm ARM (DDI
 * 0487), D24.2.40. */
static void arm64_syndromes(void **state)
{
	static const struct meaning_case cases[] = {
	    {FAULT_USER, 0x82000007, "exec", "missing", "INSTRUCTION_ABORT|TRANSLATION_L3"},
	    {FAULT_USER, 0x82000006, "exec", "missing", "INSTRUCTION_ABORT|TRANSLATION_L2"},
	    {FAULT_USER, 0x92000007, "read", "missing", "DATA_ABORT|TRANSLATION_L3"},
	    {FAULT_USER, 0x92000006, "read", "missing", "DATA_ABORT|TRANSLATION_L2"},
	    {FAULT_USER, 0x92000047, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L3"},
	    {FAULT_USER, 0x92000045, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L1"},
	    {FAULT_USER, 0x9200004f, "write", "protection", "DATA_ABORT|WNR|PERMISSION_L3"},
	    {FAULT_KERNEL, 0x96000007, "read", "missing", "DATA_ABORT|TRANSLATION_L3"},
	    {FAULT_KERNEL, 0x96000047, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L3"},
	    {FAULT_KERNEL, 0x96000044, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L0"},
	    /* cache maintenance sets WnR and writes nothing */
	    {FAULT_USER, 0x92000147, "read", "missing", "DATA_ABORT|WNR|CM|TRANSLATION_L3"},
	    /* WnR means nothing for an instruction abort */
	    {FAULT_USER, 0x8200004f, "exec", "protection", "INSTRUCTION_ABORT|PERMISSION_L3"},
	    {FAULT_USER, 0x9200000b, "read", "other", "DATA_ABORT|ACCESS_FLAG_L3"},
	    {FAULT_USER, 0x92000011, "read", "other", "DATA_ABORT|TAG_CHECK"},
	    {FAULT_USER, 0x92000021, "read", "other", "DATA_ABORT|ALIGNMENT"},
	    {FAULT_USER, 0x92000410, "read", "other", "DATA_ABORT|FNV|EXTERNAL_ABORT"},
	    {FAULT_USER, 0x9200006b, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L-1"},
	    {FAULT_USER, 0x92000029, "read", "other", "DATA_ABORT|ADDRESS_SIZE_L-1"},
	    {FAULT_USER, 0x9200003f, "read", "other", "DATA_ABORT|FSC_0x3f"},
	    /* a guarded control stack is written without WnR */
	    {FAULT_USER, 0x1009200000f, "write", "protection", "DATA_ABORT|GCS|PERMISSION_L3"},
	    {FAULT_USER, 0x409200004f, "write", "protection", "DATA_ABORT|WNR|OVERLAY|PERMISSION_L3"},
	    /* no abort at all */
	    {FAULT_USER, 0x56000000, "unknown", "unknown", "EC_0x15"},
	    {FAULT_USER, 0, "unknown", "unknown", "EC_0x00"},
	};

	check_meanings(TRACE_ARM64, cases, ARRAY_SIZE(cases));
}

/* What Linux does by status code: pages that are not there are its do_translation_fault, rights its do_page_fault. */
static void every_status_code_of_arm64_has_its_kind(void **state)
{
	struct trace_meaning m;

	for (uint64_t fsc = 0; fsc < 64; fsc++) {
		const char *kind = (fsc >= 4 && fsc <= 7) || fsc == 0x2b ? "missing"
				   : fsc >= 0xc && fsc <= 0xf            ? "protection"
									 : "other";

		trace_meaning(TRACE_ARM64, FAULT_USER, 0x92000000 | fsc, &m);
		assert_string_equal(m.kind, kind);
		assert_string_equal(m.access, "read");
		trace_meaning(TRACE_ARM64, FAULT_KERNEL, 0x86000000 | fsc, &m);
		assert_string_equal(m.kind, kind);
		assert_string_equal(m.access, "exec");
	}
}

static void details_always_fit(void **state)
{
	struct trace_meaning m;

	for (uint64_t ec = 0; ec < 64; ec++) {
		trace_meaning(TRACE_ARM64, FAULT_USER, (UINT64_MAX & ~(UINT64_C(0x3f) << 26)) | ec << 26, &m);
		assert_true(strlen(m.details) < sizeof(m.details) - 1);
	}
	trace_meaning(TRACE_X86, 77, 4, &m);
	assert_string_equal(m.mode, "user");
}

static void an_unknown_architecture_tells_the_mode(void **state)
{
	struct trace_meaning m;

	trace_meaning(TRACE_ARCH_UNKNOWN, FAULT_KERNEL, 6, &m);
	assert_string_equal(m.mode, "kernel");
	assert_string_equal(m.access, "unknown");
	assert_string_equal(m.details, "");
}

/* ---- lines ---- */

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

	trace_line_text(&out, TRACE_X86, r, place, cgroup);
	assert_string_equal(out.data, want);
}

static void assert_json(const struct trace_record *r, const struct symbol_place *place, const char *cgroup,
			const char *want)
{
	auto_strbuf out = {0};

	trace_line_json(&out, TRACE_X86, r, place, cgroup);
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
	trace_line_text(&out, TRACE_X86, &r, &nowhere, NULL);
	assert_memory_equal(out.data, "xxxxxxxxxxxxxxxx    4711", 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(x86_codes),
	    cmocka_unit_test(arm64_syndromes),
	    cmocka_unit_test(every_status_code_of_arm64_has_its_kind),
	    cmocka_unit_test(details_always_fit),
	    cmocka_unit_test(an_unknown_architecture_tells_the_mode),
	    cmocka_unit_test(a_fault_reads_like_perf_script),
	    cmocka_unit_test(a_thread_and_a_cgroup_are_named),
	    cmocka_unit_test(what_is_not_known_is_said),
	    cmocka_unit_test(a_bad_access_tells_signal_code_and_outcome),
	    cmocka_unit_test(json_has_the_same_fields),
	    cmocka_unit_test(names_cannot_drive_the_terminal),
	    cmocka_unit_test(a_name_of_full_length_ends),
	};
	return cmocka_run_group_tests_name("trace-line", tests, NULL, NULL);
}
