/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's counters of one cgroup (verb `bad` of daemon/sink/control.h), and by how much they grew.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"

#define SELFTEST_COUNTS_MAX 256
#define SELFTEST_WORD_BYTES 24
#define SELFTEST_SIGNALS_BYTES 256

struct selftest_count {
	char signal[SELFTEST_WORD_BYTES], code[SELFTEST_WORD_BYTES], outcome[SELFTEST_WORD_BYTES];
	uint64_t count;
};

struct selftest_counts {
	bool folded;       /* the cgroup has no counters of its own, so there are none here */
	bool says_signals; /* the daemon told which signals it counts */
	char signals[SELFTEST_SIGNALS_BYTES];
	size_t n;
	struct selftest_count items[SELFTEST_COUNTS_MAX];
};

/* What the counters have to grow by; NULL as signal: not at all. */
struct selftest_growth {
	const char *signal, *code;
	uint64_t handled, fatal;
};

/* Asks the daemon. FAULTD_OK or the exit code, and the reason was told on standard error. */
int selftest_counts_read(const char *socket, const char *cgroup, struct selftest_counts *ret);
/* Parses the body of an answer, which is changed by that. -EBADMSG if it is none. */
int selftest_counts_parse(char *body, struct selftest_counts *ret);
/* Whether the daemon counts it; of one that does not say, SIGSEGV and SIGBUS are known to be. */
bool selftest_counts_signal(const struct selftest_counts *counts, const char *signal);
/* True if the counters grew by this and nothing else; else `text` gets every difference. */
bool selftest_counts_grew(const struct selftest_counts *before, const struct selftest_counts *after,
			  const struct selftest_growth *wanted, struct strbuf *text);
