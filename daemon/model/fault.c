/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/fault.h"

static const char *const modes[FAULT_MODES] = {[FAULT_USER] = "user", [FAULT_KERNEL] = "kernel"};
static const char *const accesses[FAULT_ACCESSES] = {
    [FAULT_READ] = "read",
    [FAULT_WRITE] = "write",
    [FAULT_EXEC] = "exec",
};
static const char *const kinds[FAULT_KINDS] = {
    [FAULT_MISSING] = "missing",
    [FAULT_PROTECTION] = "protection",
    [FAULT_OTHER] = "other",
};

struct fault_class fault_class_names(uint32_t class)
{
	struct fault_class names = {"unknown", "unknown", "unknown"};

	if (class < FAULT_CLASS_MODE_ONLY(0)) {
		names.mode = modes[class / (FAULT_ACCESSES * FAULT_KINDS)];
		names.access = accesses[class / FAULT_KINDS % FAULT_ACCESSES];
		names.kind = kinds[class % FAULT_KINDS];
	} else if (class < FAULT_CLASSES) {
		names.mode = modes[class - FAULT_CLASS_MODE_ONLY(0)];
	}
	return names;
}

uint64_t fault_sum(const uint64_t faults[FAULT_CLASSES_ALL], fault_class_set set)
{
	uint64_t sum = 0;

	for (uint32_t c = 0; c < FAULT_CLASSES_ALL; c++)
		if (set & (1u << c))
			sum += faults[c];
	return sum;
}
