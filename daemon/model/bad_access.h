/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of bad accesses: what a counter's index means, as names.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/bad_access_abi.h"

struct bad_class {
	const char *signal; /* "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS", "SIGABRT" */
	const char *code;   /* "maperr", "accerr", ..., "kernel", "sent", "other" */
};

/* Counts of one cgroup. */
struct bad_counts {
	uint64_t count[BAD_OUTCOMES][BAD_CLASSES];
};

/* Times from the fault to the delivery of its signal, of one cgroup; buckets as in bad_access_abi.h. */
struct bad_latencies {
	uint64_t bucket[BAD_LATENCY_BUCKETS];
	uint64_t sum_ns;
};

/* Names of class `class` < BAD_CLASSES, in static storage, never NULL; out of range gives "unknown" for both. */
struct bad_class bad_class_names(uint32_t class);
/* "SIGSEGV" and so on; out of range gives "unknown". */
const char *bad_signal_name(enum bad_signal signal);
/* The signal that the class belongs to; BAD_SIGNALS if out of range. */
enum bad_signal bad_class_signal(uint32_t class);
/* "handled" or "fatal". */
const char *bad_outcome_name(enum bad_outcome outcome);
/* What the code means, in a few words for people ("no mapping at the address"); never NULL. */
const char *bad_class_meaning(uint32_t class);
