/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bodies of the cases, for the table of them. What each is about stands there.
 */
#pragma once

#include <sys/types.h>

#include "daemon/ctl/selftest.h"

/* ---- selftest_memory.c ---- */

void body_null_read(struct witness *w);
void body_null_write(struct witness *w);
void body_null_jump(struct witness *w);
void body_unmapped(struct witness *w);
void body_read_only(struct witness *w);
void body_no_exec(struct witness *w);
void body_prot_none(struct witness *w);
void body_protection_key(struct witness *w);
void body_guard_page(struct witness *w);
void body_guard_marker(struct witness *w);
void body_past_eof(struct witness *w);
void body_truncated(struct witness *w);
void body_userfaultfd(struct witness *w);
void body_memory_failure(struct witness *w);
void body_stack_overflow(struct witness *w);
void body_stack_overflow_no_altstack(struct witness *w);
void body_stack_overflow_altstack(struct witness *w);

/* ---- selftest_cpu.c: by instructions of the architecture ---- */

void body_misaligned(struct witness *w);
void body_non_canonical(struct witness *w);
void body_non_canonical_stack(struct witness *w);
void body_kernel_address(struct witness *w);
void body_privileged(struct witness *w);
void body_umip(struct witness *w);
void body_shadow_stack(struct witness *w);
void body_memory_tag(struct witness *w);
void body_illegal(struct witness *w);
void body_divide(struct witness *w);
void body_float_divide(struct witness *w);
void body_breakpoint(struct witness *w);

/* ---- selftest_signals.c: what becomes of them ---- */

#define BODY_SURVIVED 100
#define BODY_BARRIERS 1000
#define BODY_THREADS 4

void body_survived(struct witness *w);
void body_barrier(struct witness *w);
void body_threads_survive(struct witness *w);
void body_two_threads(struct witness *w);
void body_blocked(struct witness *w);
void body_ignored(struct witness *w);
void body_reset_and_return(struct witness *w);
void body_resethand(struct witness *w);
void body_reraise(struct witness *w);
void body_reset_and_raise(struct witness *w);
void body_reset_and_raise_within(struct witness *w);
void body_vfork(struct witness *w);
void body_container_init(struct witness *w);
void body_debugger_swallows(struct witness *w);
void body_efault(struct witness *w);
void body_bad_signal_stack(struct witness *w);
void body_dispatch_selector(struct witness *w);
void body_exec_failure(struct witness *w);

/* ---- selftest_sent.c: by processes ---- */

void body_wait(struct witness *w);
void body_wait_blocked(struct witness *w);
void body_wait_ignored(struct witness *w);
void send_kill(pid_t pid);
void send_queue(pid_t pid);
void send_twice(pid_t pid);
void body_raise(struct witness *w);
void body_forged_process(struct witness *w);
void body_forged_thread(struct witness *w);
void body_forged_pidfd(struct witness *w);
void body_timer(struct witness *w);
void body_fault_before_sent(struct witness *w);
void body_seccomp(struct witness *w);
void body_abort(struct witness *w);

/* ---- selftest_locks.c ---- */

#define BODY_LOCKS_ACCESSES 1000

/* numbers: mmap_lock read acquisitions around BODY_LOCKS_ACCESSES accesses that were denied, and around as many to no mapping. */
void body_locks(struct witness *w);
