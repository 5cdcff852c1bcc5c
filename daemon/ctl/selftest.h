/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultctl selftest: the cases, and what becomes of them.
 *
 * A case is a function that is run in processes of its own, which are in a cgroup of their own where possible. Each makes bad accesses
 * and notes in a page that it shares with the runner (struct witness) what its signal handlers were told. Afterwards the runner compares
 * that, how the process ended, and by how much the daemon's counters of the cgroup grew, with what the case says. The expectations
 * stand here and nowhere else: they come from siginfo(2) and from the rules of counting, not from the daemon's tables.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SELFTEST_TEXT_BYTES 200

/* ---- what a process saw ---- */

struct witness {
	/* What signal handlers were told: the first call, and how many said something else. */
	uint32_t calls;
	uint32_t strange;
	int32_t signo, code;
	uintptr_t address;
	bool check_address; /* si_addr has to be in the page of `expected` */
	uintptr_t expected;

	/* By the case itself, empty if there is nothing to say. */
	char skip[SELFTEST_TEXT_BYTES];    /* why this machine cannot do it */
	char problem[SELFTEST_TEXT_BYTES]; /* what went wrong */
	uint64_t numbers[2];

	int ready; /* descriptor to write a byte to when the process waits for a signal */
};

/* ---- cases ---- */

enum selftest_flag {
	/* Run twice: with a handler that jumps out of the access, and without any. */
	SELFTEST_BOTH = 1,
	/* The signal of the case ends the process; without it, it exits with 0. */
	SELFTEST_DIES = 2,
	/* Leaves traces on the host that worry people: only if asked for by its name. */
	SELFTEST_ON_REQUEST = 4,
};

struct selftest_case {
	const char *name;
	const char *about;
	void (*body)(struct witness *w);
	const char *signal; /* "SIGSEGV"; NULL if nothing may be counted */
	const char *codes;  /* codes that the kernel may give, separated by '|': what a handler is told */
	const char
	    *counted;     /* the code it is counted under; NULL: as the handler is told, or the only one of `codes` */
	uint32_t handled; /* what the daemon has to count in all */
	uint32_t fatal;
	uint32_t seen;   /* calls of a handler in each process; BOTH: in the first */
	uint32_t repeat; /* processes, one after the other; 0 means 1 */
	uint32_t flags;
	void (*send)(pid_t pid); /* done by the runner, in its own cgroup, when the process is ready */
	const char *on_request;  /* ON_REQUEST: why */
};

extern const struct selftest_case selftest_cases[];
extern const size_t selftest_n_cases;

/* NULL if there is none of this name. */
const struct selftest_case *selftest_find_case(const char *name);

/* ---- rows ---- */

enum selftest_result { SELFTEST_PASS, SELFTEST_FAIL, SELFTEST_SKIP, SELFTEST_INFO, SELFTEST_RESULTS };

struct selftest_row {
	const char *name;
	const struct selftest_case *c; /* NULL: a row that only informs */
	enum selftest_result result;
	const char *code;   /* the one that it came to, of those that may be; NULL if unknown */
	const char *text;   /* why, or what was seen; "" if there is nothing to say */
	const char *cgroup; /* whose counters were read; NULL if none were */
};

/* ---- names ---- */

/* The code of a siginfo as a name ("maperr", "tkill"), in static storage; NULL if it has none. */
const char *selftest_code_name(int signo, int code);
/* "SIGSEGV"; NULL if it is not among those that are counted. */
const char *selftest_signal_name(int signo);
/* 0 if unknown. */
int selftest_signal_number(const char *name);
/* Whether `name` is one of `codes`, which are separated by '|'. */
bool selftest_code_among(const char *name, const char *codes);
