/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sink is handed, read-only and valid for the length of the call: the state of the world at one instant.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/model/aggregate.h"
#include "daemon/model/self.h"

struct probe_info {
	const char *probe;   /* "page_faults", "major_page_faults" */
	const char *backend; /* "tracepoint", "memory.stat", "off", ... */
};

struct snapshot {
	uint64_t now_ns;      /* monotonic */
	uint64_t now_unix_ns; /* the same instant on the wall clock */
	const struct aggregate *aggregate;
	const struct self_stats *self;
	const struct probe_info *probes;
	size_t n_probes;
};
