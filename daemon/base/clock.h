/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two clocks, read only by the pipeline and the sinks' I/O edges; everything below is handed the time.
 * Monotonic time does not move in suspend, which is what windows and storms want.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define NSEC_PER_USEC UINT64_C(1000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC UINT64_C(1000000000)

static inline uint64_t clock_read_ns(clockid_t id)
{
	struct timespec ts = {0};
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_realtime_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}
