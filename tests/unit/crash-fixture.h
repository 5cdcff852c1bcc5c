/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash records for the tests of what handles them.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/model/crash.h"

#define CRASH_TIME_NS UINT64_C(1785593045123456789) /* 2026-08-01T14:04:05.123456789Z, by date(1) */
#define SEGV(code) (BAD_BASE_SEGV + (code))
#define BUS(code) (BAD_BASE_BUS + (code))

DEFINE_CLEANUP(crash_of_test, struct crash *, crash_free)
#define auto_crash cleanup(crash_of_test) struct crash

/* A write to 0x1234 at ip 0x401000, of myapp in /system.slice/myapp.service; each test changes what it is about. */
struct crash_event crash_event_make(void);
/* The record as a crash of that cgroup, with x86 codes. */
struct crash *crash_of(const struct crash_event *event);
struct crash *crash_of_arm64(const struct crash_event *event);
/* Of another cgroup. */
struct crash *crash_in(const char *cgroup, const struct crash_event *event);
