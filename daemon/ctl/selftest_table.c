/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/selftest_bodies.h"

#define SEGV "SIGSEGV"
/* A bad access that a handler may survive: made once with and once without one. */
#define ACCESS(n, b, s, c, text)                                                                                \
	{                                                                                                       \
		.name = (n), .body = (b), .signal = (s), .codes = (c), .about = (text), .flags = SELFTEST_BOTH, \
		.handled = 1, .fatal = 1, .seen = 1                                                             \
	}
/* A signal that was sent, whatever it claims. */
#define SENT(n, b, seen_as, text, ...)                                                                            \
	{                                                                                                         \
		.name = (n), .body = (b), .signal = SEGV, .codes = (seen_as), .counted = "sent", .about = (text), \
		.flags = SELFTEST_BOTH, .handled = 1, .fatal = 1, .seen = 1, __VA_ARGS__                          \
	}
/* One access that ends the process after `n_seen` calls of a handler. */
#define ONE_FATAL(n, b, c, n_seen, text)                                                                         \
	{                                                                                                        \
		.name = (n), .body = (b), .signal = SEGV, .codes = (c), .about = (text), .flags = SELFTEST_DIES, \
		.fatal = 1, .seen = (n_seen)                                                                     \
	}

const struct selftest_case selftest_cases[] = {
    /* ---- memory ---- */
    ACCESS("null-read", body_null_read, SEGV, "maperr", "read at address 0"),
    ACCESS("null-write", body_null_write, SEGV, "maperr", "write at address 0"),
    ACCESS("null-jump", body_null_jump, SEGV, "maperr", "call of address 0"),
    ACCESS("unmapped", body_unmapped, SEGV, "maperr", "read of memory that was unmapped"),
    ACCESS("read-only", body_read_only, SEGV, "accerr", "write to a page that may only be read"),
    ACCESS("no-exec", body_no_exec, SEGV, "accerr", "jump into a page that may not be executed"),
    ACCESS("prot-none", body_prot_none, SEGV, "accerr", "read of a page without any right"),
    ACCESS("protection-key", body_protection_key, SEGV, "pkuerr", "read that a protection key forbids"),
    ACCESS("guard-page", body_guard_page, SEGV, "accerr", "stack of a thread grows into its guard page"),
    ACCESS("guard-marker", body_guard_marker, SEGV, "maperr|accerr", "read of a guard made by madvise(2)"),
    ACCESS("past-eof", body_past_eof, "SIGBUS", "adrerr", "read past the end of a mapped file"),
    ACCESS("truncated", body_truncated, "SIGBUS", "adrerr", "read of a mapped file that was truncated"),
    ACCESS("userfaultfd", body_userfaultfd, "SIGBUS", "adrerr", "read of a page that a userfaultfd does not give"),
    /* adrerr: of a kernel built without the handling of memory failures. */
    {.name = "memory-failure",
     .body = body_memory_failure,
     .signal = "SIGBUS",
     .codes = "mceerr_ar|adrerr",
     .about = "read of a page that is marked as failed memory",
     .flags = SELFTEST_BOTH | SELFTEST_ON_REQUEST,
     .handled = 1,
     .fatal = 1,
     .seen = 1,
     .on_request = "the kernel would log it like a failure of the hardware; --case memory-failure makes it"},
    ONE_FATAL("stack-overflow", body_stack_overflow, "maperr", 0, "the main stack overflows, no handler"),
    ONE_FATAL("stack-overflow-no-altstack", body_stack_overflow_no_altstack, "maperr", 0,
	      "the same with a handler, which finds no stack to run on: delivered twice, one fatal access"),
    {.name = "stack-overflow-altstack",
     .body = body_stack_overflow_altstack,
     .signal = SEGV,
     .codes = "maperr",
     .about = "the same with a handler on a stack of its own",
     .handled = 1,
     .seen = 1},

    /* ---- the CPU ---- */
    ACCESS("misaligned", body_misaligned, "SIGBUS", "adraln", "access that has to be aligned and is not"),
    ACCESS("non-canonical", body_non_canonical, SEGV,
#if defined(__x86_64__)
	   "kernel",
#else
	   "maperr",
#endif
	   "read at an address beyond those of the CPU"),
    ACCESS("non-canonical-stack", body_non_canonical_stack, "SIGBUS", "kernel", "the same by way of the stack segment"),
    /* x86 with LASS refuses it as a general protection fault. */
    ACCESS("kernel-address", body_kernel_address, SEGV,
#if defined(__x86_64__)
	   "maperr|kernel",
#else
	   "maperr|accerr",
#endif
	   "read at an address of the kernel"),
    ACCESS("privileged", body_privileged,
#if defined(__x86_64__) || defined(__i386__)
	   SEGV, "kernel",
#else
	   "SIGILL", "illopc|prvopc",
#endif
	   "instruction that is for the kernel alone"),
    ACCESS("umip", body_umip, SEGV, "maperr", "SGDT, which the kernel emulates, to a bad address"),
    ACCESS("shadow-stack", body_shadow_stack, SEGV, "cperr", "return to where the shadow stack does not say"),
    ACCESS("memory-tag", body_memory_tag, SEGV, "mteserr", "read with the wrong memory tag"),

    /* ---- what becomes of it ---- */
    {.name = "survived",
     .body = body_survived,
     .signal = SEGV,
     .codes = "maperr",
     .handled = BODY_SURVIVED,
     .seen = BODY_SURVIVED,
     .about = "many accesses that the process survives"},
    {.name = "barrier",
     .body = body_barrier,
     .signal = SEGV,
     .codes = "accerr",
     .handled = BODY_BARRIERS,
     .seen = BODY_BARRIERS,
     .about = "a runtime's barrier: the handler allows the access, which is then repeated"},
    {.name = "threads-survive",
     .body = body_threads_survive,
     .signal = SEGV,
     .codes = "maperr",
     .handled = BODY_THREADS * BODY_SURVIVED,
     .seen = BODY_THREADS * BODY_SURVIVED,
     .about = "several threads that make bad accesses and survive"},
    {.name = "two-threads",
     .body = body_two_threads,
     .signal = SEGV,
     .codes = "maperr",
     .flags = SELFTEST_DIES,
     .fatal = 20,
     .repeat = 20,
     .about = "two threads fault at once, and the process dies once"},
    ONE_FATAL("blocked", body_blocked, "maperr", 0, "access while the signal is blocked: its handler is not called"),
    ONE_FATAL("ignored", body_ignored, "maperr", 0, "access while the signal is ignored"),
    ONE_FATAL("reset-and-return", body_reset_and_return, "maperr", 1,
	      "handler that puts the default back and returns: the access is repeated, one fatal access"),
    ONE_FATAL("resethand", body_resethand, "maperr", 1, "the same by SA_RESETHAND"),
    ONE_FATAL("reraise", body_reraise, "maperr", 1,
	      "handler that puts the default back and sends the signal on to itself as it was: one fatal access"),
    ONE_FATAL("reset-and-raise", body_reset_and_raise, "maperr", 1, "the same by raise(3)"),
    ONE_FATAL("reset-and-raise-within", body_reset_and_raise_within, "maperr", 1,
	      "the same where the handler does not block the signal"),
    {.name = "vfork",
     .body = body_vfork,
     .signal = SEGV,
     .codes = "maperr",
     .fatal = 1,
     .about = "a child that shares memory with its parent dies alone"},
    {.name = "container-init",
     .body = body_container_init,
     .signal = SEGV,
     .codes = "maperr",
     .fatal = 1,
     .about = "init of a pid namespace: ignores a signal that is sent, dies of its own access"},
    {.name = "debugger-swallows",
     .body = body_debugger_swallows,
     .about = "a debugger keeps the signal for itself: nothing was delivered"},
    {.name = "efault", .body = body_efault, .about = "write(2) from a bad address fails: no bad access"},
    ONE_FATAL("bad-signal-stack", body_bad_signal_stack, "kernel", 0,
	      "another signal, whose handler's stack cannot be written"),
    ONE_FATAL("dispatch-selector", body_dispatch_selector, "kernel", 0,
	      "system call user dispatch with a selector that cannot be read"),
    ONE_FATAL("exec-failure", body_exec_failure, "kernel", 0, "execve(2) that fails after the old program is gone"),

    /* ---- sent ---- */
    SENT("sent", body_wait, "user", "kill(2) by a process in another cgroup", .send = send_kill),
    SENT("sent-queue", body_wait, "queue", "sigqueue(3) by a process in another cgroup", .send = send_queue),
    {.name = "sent-blocked",
     .body = body_wait_blocked,
     .signal = SEGV,
     .codes = "user",
     .counted = "sent",
     .handled = 1,
     .seen = 1,
     .send = send_twice,
     .about = "sent twice while it is blocked: delivered once"},
    {.name = "sent-ignored",
     .body = body_wait_ignored,
     .send = send_twice,
     .about = "sent while it is ignored: no bad access"},
    SENT("raise", body_raise, "tkill", "raise(3)"),
    SENT("forged-process", body_forged_process, "maperr", "rt_sigqueueinfo(2) that claims an access"),
    SENT("forged-thread", body_forged_thread, "maperr", "rt_tgsigqueueinfo(2) that claims an access"),
    SENT("forged-pidfd", body_forged_pidfd, "maperr", "pidfd_send_signal(2) that claims an access"),
    SENT("timer", body_timer, "timer", "a timer that expires"),
    ONE_FATAL("fault-before-sent", body_fault_before_sent, "maperr", 0,
	      "access while a signal that was sent waits: dies of the access"),

    /* ---- other signals ---- */
    ACCESS("illegal", body_illegal, "SIGILL", "illopn|illopc|illtrp", "illegal instruction"),
    ACCESS("divide", body_divide, "SIGFPE", "intdiv", "integer division by zero"),
    ACCESS("float-divide", body_float_divide, "SIGFPE", "fltdiv", "floating-point division by zero that is not masked"),
    ACCESS("breakpoint", body_breakpoint, "SIGTRAP", "kernel|brkpt", "breakpoint instruction"),
    ACCESS("seccomp", body_seccomp, "SIGSYS", "seccomp", "system call that a seccomp filter traps"),
    {.name = "abort",
     .body = body_abort,
     .signal = "SIGABRT",
     .codes = "tkill",
     .counted = "abort",
     .handled = 1,
     .fatal = 1,
     .seen = 1,
     .flags = SELFTEST_BOTH,
     .about = "abort(3)"},
};
const size_t selftest_n_cases = ARRAY_SIZE(selftest_cases);

const struct selftest_case *selftest_find_case(const char *name)
{
	for (size_t i = 0; i < selftest_n_cases; i++)
		if (strcmp(selftest_cases[i].name, name) == 0)
			return &selftest_cases[i];
	return NULL;
}

/* ---- names ---- */

static const struct {
	int number;
	const char *name;
} signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},
    {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"}, {SIGABRT, "SIGABRT"},
};

/* Numbers that some C libraries do not have; signal 0: of any. */
static const struct {
	int signo, code;
	const char *name;
} codes[] = {
    {SIGSEGV, SEGV_MAPERR, "maperr"}, {SIGSEGV, SEGV_ACCERR, "accerr"},
    {SIGSEGV, 3, "bnderr"},           {SIGSEGV, 4, "pkuerr"},
    {SIGSEGV, 5, "accadi"},           {SIGSEGV, 6, "adiderr"},
    {SIGSEGV, 7, "adiperr"},          {SIGSEGV, 8, "mteaerr"},
    {SIGSEGV, 9, "mteserr"},          {SIGSEGV, 10, "cperr"},
    {SIGBUS, BUS_ADRALN, "adraln"},   {SIGBUS, BUS_ADRERR, "adrerr"},
    {SIGBUS, BUS_OBJERR, "objerr"},   {SIGBUS, 4, "mceerr_ar"},
    {SIGBUS, 5, "mceerr_ao"},         {SIGILL, ILL_ILLOPC, "illopc"},
    {SIGILL, ILL_ILLOPN, "illopn"},   {SIGILL, ILL_ILLADR, "illadr"},
    {SIGILL, ILL_ILLTRP, "illtrp"},   {SIGILL, ILL_PRVOPC, "prvopc"},
    {SIGILL, ILL_PRVREG, "prvreg"},   {SIGFPE, FPE_INTDIV, "intdiv"},
    {SIGFPE, FPE_INTOVF, "intovf"},   {SIGFPE, FPE_FLTDIV, "fltdiv"},
    {SIGTRAP, TRAP_BRKPT, "brkpt"},   {SIGTRAP, TRAP_TRACE, "trace"},
    {SIGSYS, 1, "seccomp"},           {0, SI_USER, "user"},
    {0, SI_KERNEL, "kernel"},         {0, SI_QUEUE, "queue"},
    {0, SI_TKILL, "tkill"},           {0, SI_TIMER, "timer"},
};

const char *selftest_code_name(int signo, int code)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if ((codes[i].signo == signo || codes[i].signo == 0) && codes[i].code == code)
			return codes[i].name;
	return NULL;
}

const char *selftest_signal_name(int signo)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (signals[i].number == signo)
			return signals[i].name;
	return NULL;
}

int selftest_signal_number(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (strcmp(signals[i].name, name) == 0)
			return signals[i].number;
	return 0;
}

bool selftest_code_among(const char *name, const char *list)
{
	for (size_t len = strlen(name); list; list = strchr(list, '|') ? strchr(list, '|') + 1 : NULL)
		if (strncmp(list, name, len) == 0 && (list[len] == '\0' || list[len] == '|'))
			return true;
	return false;
}
