/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the address of a bad access lies, told from the fault alone. Pure.
 */
#pragma once

#include "daemon/model/crash.h"

/* Whether the signal's address means anything: not if a process sent it or the kernel gave no code, nor where the
 * architecture tells none. */
bool crash_has_address(const struct crash_event *event, enum crash_arch arch);
/* Whether trap and error code are of a page fault, so that there is an access: no other trap of x86 has one, and of
 * arm64 only aborts. */
bool crash_has_access(const struct crash_event *event, enum crash_arch arch);
/* `is_exec`: the access was to fetch an instruction. */
enum crash_address crash_where(const struct crash_event *event, enum crash_arch arch, bool is_exec);
