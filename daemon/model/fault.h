/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-fault classes: what a counter's index means, as names and numbers. Decoding of raw codes is in bpf/fault_class.h.
 */
#pragma once

#include <stdint.h>

#include "bpf/fault_abi.h"

struct fault_class {
	const char *mode;   /* "user", "kernel" or "unknown" */
	const char *access; /* "read", "write", "exec" or "unknown" */
	const char *kind;   /* "missing", "protection", "other" or "unknown" */
};

/* Names of class `class` < FAULT_CLASSES_ALL, in static storage, never NULL; out of range gives all "unknown". */
struct fault_class fault_class_names(uint32_t class);

/* Set of classes, a bit each, for rates over a group of classes. */
typedef uint32_t fault_class_set;
#define FAULT_CLASS_SET_ALL ((fault_class_set)((1u << FAULT_CLASSES_ALL) - 1))

/* Sum of the counters in the set. */
uint64_t fault_sum(const uint64_t faults[FAULT_CLASSES_ALL], fault_class_set set);
