/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultctl decode in a child: what it prints and how it ends.
 */
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/ctl.h"
#include "daemon/exit.h"

#define ARGS_MAX 8
#define OUTPUT_BYTES 16384

struct result {
	int code;
	char said[OUTPUT_BYTES], complained[OUTPUT_BYTES];
};

static void read_all(int fd, char text[OUTPUT_BYTES])
{
	ssize_t n = pread(fd, text, OUTPUT_BYTES - 1, 0);

	assert_true(n >= 0);
	text[n] = '\0';
}

/* `out` < 0: what is said is kept. */
static void run_into(int out, const char *const *args, struct result *ret)
{
	auto_close int said = memfd_create("said", MFD_CLOEXEC);
	auto_close int complained = memfd_create("complained", MFD_CLOEXEC);
	int status;
	pid_t pid;

	assert_true(said >= 0 && complained >= 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char *argv[ARGS_MAX + 2] = {(char *)(uintptr_t) "decode"};
		int argc = 1;

		for (; *args; args++)
			argv[argc++] = (char *)(uintptr_t)*args;
		dup2(out >= 0 ? out : said, STDOUT_FILENO);
		dup2(complained, STDERR_FILENO);
		/* nobody needs to be root for that */
		if (getuid() == 0 && (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0))
			_exit(99);
		exit(ctl_decode(argc, argv));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	ret->code = WEXITSTATUS(status);
	read_all(said, ret->said);
	read_all(complained, ret->complained);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void assert_says(const char *const *args, const char *said)
{
	struct result r;

	run_into(-1, args, &r);
	assert_string_equal(r.complained, "");
	assert_string_equal(r.said, said);
	assert_int_equal(r.code, FAULTD_OK);
}

/* Nothing is said then, and the complaint holds `complaint`. */
static void assert_refuses(const char *const *args, const char *complaint)
{
	struct result r;

	run_into(-1, args, &r);
	if (!strstr(r.complained, complaint))
		fail_msg("no '%s' in: %s", complaint, r.complained);
	assert_string_equal(r.said, "");
	assert_int_equal(r.code, FAULTD_USAGE);
}

/* ---- what is said ---- */

static void a_line_per_code(void **state)
{
	assert_says(
	    ARGS("--arch", "arm64", "0x92000045", "0x9200004f", "0x96000044", "0x92000011", "0x56000000"),
	    "0x92000045  user write, missing: data abort from EL0, translation fault level 1, WnR (SEGV_MAPERR if "
	    "nothing maps the address)\n"
	    "0x9200004f  user write, protection: data abort from EL0, permission fault level 3, WnR (SEGV_ACCERR if "
	    "the mapping forbids it)\n"
	    "0x96000044  kernel write, missing: data abort from EL1, translation fault level 0, WnR\n"
	    "0x92000011  user read, other: data abort from EL0, tag check fault, not handled as a page fault "
	    "(SEGV_MTESERR)\n"
	    "0x56000000  no page fault: exception class 0x15, SVC of 64-bit code\n");
	assert_says(
	    ARGS("--arch", "x86_64", "6"),
	    "0x6  user write, missing: WRITE|USER, page not present (SEGV_MAPERR if nothing maps the address)\n");
}

static void what_is_not_known_is_left_out(void **state)
{
	assert_says(
	    ARGS("--arch", "riscv64", "12", "8", "3"),
	    "0xc  exec: instruction page fault (SEGV_MAPERR if nothing maps the address, SEGV_ACCERR if the mapping "
	    "forbids it)\n"
	    "0x8  user, no page fault: system call\n"
	    "0x3  no page fault: breakpoint (TRAP_BRKPT)\n");
	assert_says(ARGS("--arch", "s390x", "0x11"),
		    "0x11  missing: page translation exception (SEGV_MAPERR if nothing maps the address)\n");
	assert_says(ARGS("--arch", "loongarch64", "7"),
		    "0x7  protection: page of a higher privilege (SEGV_ACCERR if the mapping forbids it)\n");
}

static void two_parts_of_a_code(void **state)
{
	assert_says(
	    ARGS("--arch", "s390x", "0x11:0x400"),
	    "0x11:0x400  write, missing: page translation exception, store, primary space (SEGV_MAPERR if nothing "
	    "maps the address)\n");
	assert_says(ARGS("--arch", "powerpc", "0x40000000:1024"),
		    "0x40000000:0x400  exec, missing: NOHPTE, no translation found (SEGV_MAPERR if nothing maps the "
		    "address)\n");
	assert_says(
	    ARGS("--json", "--arch", "s390x", "17:0x800"),
	    "{\"arch\":\"s390x\",\"code\":\"0x11\",\"teid\":\"0x800\",\"mode\":\"unknown\",\"access\":\"read\","
	    "\"kind\":\"missing\",\"page_fault\":true,\"details\":\"PAGE|FETCH\",\"meaning\":\"page translation "
	    "exception, fetch, primary space\",\"signal\":\"SEGV_MAPERR if nothing maps the address\"}\n");
	assert_says(
	    ARGS("--json", "--arch", "powerpc", "0:0x700"),
	    "{\"arch\":\"powerpc\",\"code\":\"0x0\",\"trap\":\"0x700\",\"mode\":\"unknown\",\"access\":\"unknown\","
	    "\"kind\":\"unknown\",\"page_fault\":false,\"details\":\"TRAP_0x700\",\"meaning\":\"trap 0x700 is no "
	    "storage interrupt\"}\n");
}

static void json_is_an_object_a_line(void **state)
{
	assert_says(
	    ARGS("--arch", "aarch64", "0x92000045", "--json", "0x96000047"),
	    "{\"arch\":\"arm64\",\"code\":\"0x92000045\",\"mode\":\"user\",\"access\":\"write\",\"kind\":\"missing\","
	    "\"page_fault\":true,\"details\":\"DATA_ABORT|WNR|TRANSLATION_L1\",\"meaning\":\"data abort from EL0, "
	    "translation fault level 1, WnR\",\"signal\":\"SEGV_MAPERR if nothing maps the address\"}\n"
	    "{\"arch\":\"arm64\",\"code\":\"0x96000047\",\"mode\":\"kernel\",\"access\":\"write\",\"kind\":"
	    "\"missing\",\"page_fault\":true,\"details\":\"DATA_ABORT|WNR|TRANSLATION_L3\",\"meaning\":\"data abort "
	    "from EL1, translation fault level 3, WnR\"}\n");
}

/* The machine these tests run on says who is right about the default. */
static void the_default_is_this_machine(void **state)
{
#if defined(__x86_64__)
	assert_says(ARGS("7"),
		    "0x7  user write, protection: PROT|WRITE|USER, page present and access denied (SEGV_ACCERR if "
		    "the mapping forbids it, SEGV_MAPERR at an address of the kernel)\n");
#elif defined(__aarch64__)
	assert_says(ARGS("0x96000044"),
		    "0x96000044  kernel write, missing: data abort from EL1, translation fault level 0, WnR\n");
#else
	skip();
#endif
}

static void numbers_of_both_forms(void **state)
{
	static const char *const texts[] = {"0x4000000000000002", "0X4000000000000002", "4611686018427387906",
					    "0x0004000000000000002", "004611686018427387906"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_says(ARGS("--arch", "x86_64", texts[i]),
			    "0x4000000000000002  kernel write, missing: WRITE|0x4000000000000000, page not present\n");
	assert_says(ARGS("--arch", "riscv64", "18446744073709551615", "0xFFFFFFFFffffffff"),
		    "0xffffffffffffffff  no page fault: interrupt 9223372036854775807\n"
		    "0xffffffffffffffff  no page fault: interrupt 9223372036854775807\n");
}

/* ---- what is refused ---- */

#define ALLOWED "a number of at most 64 bits, decimal or hexadecimal with 0x in front, is wanted"

static void what_is_no_number_is_refused(void **state)
{
	static const char *const texts[] = {"",     "x",     "0x",   "0xg",  "12a",    " 1",  "1 ",
					    "+1",   "1.0",   "0x 1", "0x-1", "ff",     "1,2", "0b101",
					    "0x1L", "0x0x1", "\n",   "\xff", "\x1b[2J"};
	struct result r;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		/* the good one before it is not told, either */
		assert_refuses(ARGS("--arch", "arm64", "0x92000045", texts[i]), "is no code: " ALLOWED "\n");
	}
	assert_refuses(ARGS("--", "-1"), "'-1' is no code: " ALLOWED);
	run_into(-1, ARGS("\x1b[2J\x9b\n\x7f"), &r);
	assert_string_equal(r.complained, "faultctl decode: '?[2J?"
					  "?"
					  "?' is no code: " ALLOWED "\n");
	run_into(-1, ARGS("--arch", "\x1b[2J"), &r);
	assert_null(strchr(r.complained, '\x1b'));
	assert_refuses(ARGS("12345678901234567890123456789012345678901234567x"),
		       "'12345678901234567890123456789012345678901234...' is no code: ");
	assert_refuses(ARGS("1234567890123456789012345678901234567890123456x"),
		       "'1234567890123456789012345678901234567890123456x' is no code: ");
}

static void what_is_too_large_is_refused(void **state)
{
	static const char *const texts[] = {"18446744073709551616", "0x10000000000000000", "99999999999999999999999999",
					    "0xfffffffffffffffffffffffffffffffff"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_refuses(ARGS(texts[i]), "is too large: " ALLOWED);
	assert_refuses(ARGS("18446744073709551616x"), "is no code: ");
}

static void parts_that_do_not_belong_are_refused(void **state)
{
	static const char *const texts[] = {"1:", ":1", ":", "1:x", "1:2:3", "x:1", "1::2"};

	assert_refuses(ARGS("--arch", "arm64", "1:2"),
		       "'1:2': only codes of s390x (CODE:TEID) and powerpc (CODE:TRAP) have two parts\n");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_refuses(ARGS("--arch", "s390x", texts[i]),
			       "is no code: " ALLOWED ", or two with a colon between them\n");
	assert_refuses(ARGS("--arch", "powerpc", "1:18446744073709551616"), "is too large: ");
}

static void bad_options_are_refused(void **state)
{
	assert_refuses(ARGS("--arch", "vax", "1"),
		       "--arch 'vax' is not known: allowed are x86_64, arm64, riscv64, s390x, "
		       "powerpc, arm, loongarch64\n");
	assert_refuses(ARGS("--arch", "", "1"), "--arch '' is not known");
	assert_refuses(ARGS("--arch"), "faultctl decode: option '--arch' requires an argument");
	assert_refuses(ARGS("--arch", "arm64"), "no code is given: " ALLOWED);
	assert_refuses(ARGS("--json"), "no code is given: ");
	assert_refuses(ARGS("--what", "1"), "faultctl decode: unrecognized option '--what'");
	assert_refuses(ARGS("-1"), "Try faultctl decode --help.");
}

static void help_is_no_error(void **state)
{
	struct result r;

	run_into(-1, ARGS("--help"), &r);
	assert_int_equal(r.code, FAULTD_OK);
	assert_string_equal(r.complained, "");
	assert_non_null(strstr(r.said, "faultctl decode [--arch ARCH] [--json] CODE..."));
}

static void what_cannot_be_written_is_an_error(void **state)
{
	auto_close int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct result r;

	assert_true(full >= 0);
	run_into(full, ARGS("1"), &r);
	assert_int_equal(r.code, FAULTD_FAILED);
	assert_string_equal(r.complained, "faultctl decode: cannot write: No space left on device\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_line_per_code),
	    cmocka_unit_test(what_is_not_known_is_left_out),
	    cmocka_unit_test(two_parts_of_a_code),
	    cmocka_unit_test(json_is_an_object_a_line),
	    cmocka_unit_test(the_default_is_this_machine),
	    cmocka_unit_test(numbers_of_both_forms),
	    cmocka_unit_test(what_is_no_number_is_refused),
	    cmocka_unit_test(what_is_too_large_is_refused),
	    cmocka_unit_test(parts_that_do_not_belong_are_refused),
	    cmocka_unit_test(bad_options_are_refused),
	    cmocka_unit_test(help_is_no_error),
	    cmocka_unit_test(what_cannot_be_written_is_an_error),
	};
	return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
