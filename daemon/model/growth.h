/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a source counted of one cgroup since it last told. Borrowed for the length of a call.
 */
#pragma once

#include <stdint.h>

#include "daemon/model/bad_access.h"

struct growth {
	const uint64_t *faults;                /* [FAULT_CLASSES]; NULL: none */
	const struct bad_counts *bad;          /* NULL: none */
	const struct bad_latencies *latencies; /* NULL: none */
};
