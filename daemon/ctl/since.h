/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points in time as operators write them.
 */
#pragma once

#include <stdint.h>

#define SINCE_FORMS                                                                                             \
	"allowed are a time back (90s, 10m, 2h, 3d), 'today', 'yesterday', 'YYYY-MM-DD [HH:MM[:SS]]' in local " \
	"time, and RFC 3339 (2026-08-01T14:04:05Z, 2026-08-01T16:04:05.5+02:00)"

/* `now_unix_ns` is the time that a time back counts from. Times before 1970 give 0. -EINVAL for what is no time
 * (SINCE_FORMS). */
int since_parse(const char *text, uint64_t now_unix_ns, uint64_t *ret_unix_ns);
