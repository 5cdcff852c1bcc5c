/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/bad_access.h"

#include <stddef.h>

#include "daemon/base/cleanup.h"

struct code {
	const char *name;
	const char *meaning;
};

static const struct code other = {"other", "a code that is not known here"};
static const struct code kernel = {"kernel", "by the kernel, which gives no code"};
static const struct code sent = {"sent", "sent by a process"};

/* si_code 1 and up, as the kernel's headers name them. */
static const struct code segv[BAD_CODES_SEGV] = {
    {"maperr", "no mapping at the address"},
    {"accerr", "the mapping does not allow the access"},
    {"bnderr", "a bounds check failed"},
    {"pkuerr", "a protection key forbids the access"},
    {"accadi", "memory tagging (ADI) is not enabled at the address"},
    {"adiderr", "memory tag (ADI) mismatch, told late"},
    {"adiperr", "memory tag (ADI) mismatch"},
    {"mteaerr", "memory tag (MTE) mismatch, told late"},
    {"mteserr", "memory tag (MTE) mismatch"},
    {"cperr", "control flow protection: a return or a jump to a wrong place"},
};
static const struct code bus[BAD_CODES_BUS] = {
    {"adraln", "misaligned access"},
    {"adrerr", "no memory behind the mapping, as past the end of its file"},
    {"objerr", "hardware error"},
    {"mceerr_ar", "memory failure, found by this access"},
    {"mceerr_ao", "memory failure, found by the hardware"},
};
static const struct code ill[BAD_CODES_ILL] = {
    {"illopc", "illegal opcode"},    {"illopn", "illegal operand"},        {"illadr", "illegal addressing mode"},
    {"illtrp", "illegal trap"},      {"prvopc", "privileged instruction"}, {"prvreg", "privileged register"},
    {"coproc", "coprocessor error"}, {"badstk", "internal stack error"},
};
static const struct code fpe[BAD_CODES_FPE] = {
    {"intdiv", "integer division by zero"},         {"intovf", "integer overflow"},
    {"fltdiv", "floating-point division by zero"},  {"fltovf", "floating-point overflow"},
    {"fltund", "floating-point underflow"},         {"fltres", "inexact floating-point result"},
    {"fltinv", "invalid floating-point operation"}, {"fltsub", "subscript out of range"},
};
static const struct code trap[BAD_CODES_TRAP] = {
    {"brkpt", "breakpoint"},
    {"trace", "single step"},
    {"branch", "branch taken"},
    {"hwbkpt", "hardware breakpoint or watchpoint"},
    {"unk", "trap without a diagnosis"},
    {"perf", "asked for by a perf event"},
};
static const struct code sys[BAD_CODES_SYS] = {
    {"seccomp", "a system call that seccomp forbids"},
    {"user_dispatch", "a system call that goes to the user's dispatcher"},
};
static const struct code abrt[BAD_CODES_ABRT] = {{"abort", "the program gave up by abort()"}};

static const struct signal {
	const char *name;
	uint32_t base;
	uint32_t n;
	const struct code *codes;
} signals[BAD_SIGNALS] = {
    [BAD_SEGV] = {"SIGSEGV", BAD_BASE_SEGV, BAD_CODES_SEGV, segv},
    [BAD_BUS] = {"SIGBUS", BAD_BASE_BUS, BAD_CODES_BUS, bus},
    [BAD_ILL] = {"SIGILL", BAD_BASE_ILL, BAD_CODES_ILL, ill},
    [BAD_FPE] = {"SIGFPE", BAD_BASE_FPE, BAD_CODES_FPE, fpe},
    [BAD_TRAP] = {"SIGTRAP", BAD_BASE_TRAP, BAD_CODES_TRAP, trap},
    [BAD_SYS] = {"SIGSYS", BAD_BASE_SYS, BAD_CODES_SYS, sys},
    [BAD_ABRT] = {"SIGABRT", BAD_BASE_ABRT, BAD_CODES_ABRT, abrt},
};

static const struct signal *find_signal(uint32_t class)
{
	for (size_t i = BAD_SIGNALS; class < BAD_CLASSES && i-- > 0;)
		if (class >= signals[i].base)
			return &signals[i];
	return NULL;
}

static const struct code *find_code(const struct signal *s, uint32_t class)
{
	uint32_t code = class - s->base;

	if (code == BAD_CODE_KERNEL(s->n))
		return &kernel;
	if (code == BAD_CODE_SENT(s->n))
		return &sent;
	return code == BAD_CODE_OTHER ? &other : &s->codes[code - 1];
}

struct bad_class bad_class_names(uint32_t class)
{
	const struct signal *s = find_signal(class);

	return s ? (struct bad_class){s->name, find_code(s, class)->name} : (struct bad_class){"unknown", "unknown"};
}

enum bad_signal bad_class_signal(uint32_t class)
{
	const struct signal *s = find_signal(class);

	return s ? (enum bad_signal)(s - signals) : BAD_SIGNALS;
}

const char *bad_signal_name(enum bad_signal signal)
{
	return signal < BAD_SIGNALS ? signals[signal].name : "unknown";
}

const char *bad_outcome_name(enum bad_outcome outcome)
{
	return outcome == BAD_FATAL ? "fatal" : "handled";
}

const char *bad_class_meaning(uint32_t class)
{
	const struct signal *s = find_signal(class);

	return s ? find_code(s, class)->meaning : "unknown";
}
