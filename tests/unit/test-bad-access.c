/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of bad accesses against the codes of the C library's headers, which are not ours. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/bad_access_class.h"
#include "daemon/base/cleanup.h"
#include "daemon/model/bad_access.h"

static const struct {
	int signal, code;
	const char *signal_name, *code_name;
} known[] = {
    {SIGSEGV, SEGV_MAPERR, "SIGSEGV", "maperr"},
    {SIGSEGV, SEGV_ACCERR, "SIGSEGV", "accerr"},
    {SIGSEGV, SEGV_BNDERR, "SIGSEGV", "bnderr"},
    {SIGSEGV, SEGV_PKUERR, "SIGSEGV", "pkuerr"},
    {SIGSEGV, SEGV_ACCADI, "SIGSEGV", "accadi"},
    {SIGSEGV, SEGV_ADIDERR, "SIGSEGV", "adiderr"},
    {SIGSEGV, SEGV_ADIPERR, "SIGSEGV", "adiperr"},
    {SIGSEGV, SEGV_MTEAERR, "SIGSEGV", "mteaerr"},
    {SIGSEGV, SEGV_MTESERR, "SIGSEGV", "mteserr"},
    {SIGSEGV, 10, "SIGSEGV", "cperr"},
    {SIGBUS, BUS_ADRALN, "SIGBUS", "adraln"},
    {SIGBUS, BUS_ADRERR, "SIGBUS", "adrerr"},
    {SIGBUS, BUS_OBJERR, "SIGBUS", "objerr"},
    {SIGBUS, BUS_MCEERR_AR, "SIGBUS", "mceerr_ar"},
    {SIGBUS, BUS_MCEERR_AO, "SIGBUS", "mceerr_ao"},
    {SIGILL, ILL_ILLOPC, "SIGILL", "illopc"},
    {SIGILL, ILL_ILLOPN, "SIGILL", "illopn"},
    {SIGILL, ILL_ILLADR, "SIGILL", "illadr"},
    {SIGILL, ILL_ILLTRP, "SIGILL", "illtrp"},
    {SIGILL, ILL_PRVOPC, "SIGILL", "prvopc"},
    {SIGILL, ILL_PRVREG, "SIGILL", "prvreg"},
    {SIGILL, ILL_COPROC, "SIGILL", "coproc"},
    {SIGILL, ILL_BADSTK, "SIGILL", "badstk"},
    {SIGFPE, FPE_INTDIV, "SIGFPE", "intdiv"},
    {SIGFPE, FPE_INTOVF, "SIGFPE", "intovf"},
    {SIGFPE, FPE_FLTDIV, "SIGFPE", "fltdiv"},
    {SIGFPE, FPE_FLTOVF, "SIGFPE", "fltovf"},
    {SIGFPE, FPE_FLTUND, "SIGFPE", "fltund"},
    {SIGFPE, FPE_FLTRES, "SIGFPE", "fltres"},
    {SIGFPE, FPE_FLTINV, "SIGFPE", "fltinv"},
    {SIGFPE, FPE_FLTSUB, "SIGFPE", "fltsub"},
    {SIGTRAP, TRAP_BRKPT, "SIGTRAP", "brkpt"},
    {SIGTRAP, TRAP_TRACE, "SIGTRAP", "trace"},
    {SIGTRAP, TRAP_BRANCH, "SIGTRAP", "branch"},
    {SIGTRAP, TRAP_HWBKPT, "SIGTRAP", "hwbkpt"},
    {SIGTRAP, TRAP_UNK, "SIGTRAP", "unk"},
    {SIGTRAP, 6, "SIGTRAP", "perf"},
    {SIGSYS, 1, "SIGSYS", "seccomp"},
    {SIGSYS, 2, "SIGSYS", "user_dispatch"},
};

static void assert_class(int signal, int code, int sent, const char *signal_name, const char *code_name)
{
	uint32_t class = bad_class(bad_signal_of(signal), code, sent);

	assert_true(class < BAD_CLASSES);
	assert_string_equal(bad_class_names(class).signal, signal_name);
	assert_string_equal(bad_class_names(class).code, code_name);
	assert_int_equal(bad_class_signal(class), bad_signal_of(signal));
	assert_true(strlen(bad_class_meaning(class)) > 5);
}

static void each_code_has_its_name(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		assert_class(known[i].signal, known[i].code, 0, known[i].signal_name, known[i].code_name);
}

static void what_a_process_sent_is_sent_whatever_it_claims(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		assert_class(known[i].signal, known[i].code, 1, known[i].signal_name, "sent");
		assert_class(known[i].signal, SI_KERNEL, 1, known[i].signal_name, "sent");
		assert_class(known[i].signal, SI_USER, 0, known[i].signal_name, "sent");
		assert_class(known[i].signal, SI_TKILL, 0, known[i].signal_name, "sent");
		assert_class(known[i].signal, INT32_MIN, 0, known[i].signal_name, "sent");
	}
}

static void unknown_codes_are_other_and_none_is_the_kernels(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		assert_class(known[i].signal, SI_KERNEL, 0, known[i].signal_name, "kernel");
		assert_class(known[i].signal, 11, 0, known[i].signal_name, "other");
		assert_class(known[i].signal, SI_KERNEL - 1, 0, known[i].signal_name, "other");
		assert_class(known[i].signal, SI_KERNEL + 1, 0, known[i].signal_name, "other");
		assert_class(known[i].signal, INT32_MAX, 0, known[i].signal_name, "other");
	}
}

static void other_signals_are_none_of_these(void **state)
{
	for (int signal = 0; signal < 70; signal++) {
		bool counts = signal == SIGABRT;

		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			counts |= signal == known[i].signal;
		assert_true((bad_signal_of(signal) < BAD_SIGNALS) == counts);
	}
}

static void an_abort_is_the_process_own(void **state)
{
	assert_class(SIGABRT, SI_TKILL, 1, "SIGABRT", "sent");
	assert_class(SIGABRT, 1, 0, "SIGABRT", "other");
	assert_string_equal(bad_class_names(BAD_BASE_ABRT + 1).code, "abort");
}

static void out_of_range_is_unknown(void **state)
{
	assert_string_equal(bad_class_names(BAD_CLASSES).signal, "unknown");
	assert_string_equal(bad_class_names(UINT32_MAX).code, "unknown");
	assert_int_equal(bad_class_signal(BAD_CLASSES), BAD_SIGNALS);
	assert_string_equal(bad_class_meaning(UINT32_MAX), "unknown");
}

static void no_two_classes_have_the_same_names(void **state)
{
	for (uint32_t a = 0; a < BAD_CLASSES; a++)
		for (uint32_t b = 0; b < a; b++)
			assert_false(strcmp(bad_class_names(a).signal, bad_class_names(b).signal) == 0 &&
				     strcmp(bad_class_names(a).code, bad_class_names(b).code) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_code_has_its_name),
	    cmocka_unit_test(what_a_process_sent_is_sent_whatever_it_claims),
	    cmocka_unit_test(unknown_codes_are_other_and_none_is_the_kernels),
	    cmocka_unit_test(other_signals_are_none_of_these),
	    cmocka_unit_test(an_abort_is_the_process_own),
	    cmocka_unit_test(out_of_range_is_unknown),
	    cmocka_unit_test(no_two_classes_have_the_same_names),
	};

	return cmocka_run_group_tests_name("bad-access", tests, NULL, NULL);
}
