/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the current task's registers say, by architecture.
 */
#pragma once

#include "bpf/ktypes.h"

struct user_place {
	__u64 ip, sp;
};

static __always_inline struct pt_regs *user_regs(void)
{
	return (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
}

static __always_inline __u64 ip_of(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->ip;
#else
	return regs->pc;
#endif
}

static __always_inline struct user_place user_place(void)
{
	struct pt_regs *regs = user_regs();

	return (struct user_place){.ip = ip_of(regs), .sp = regs->sp};
}

/* The current task is inside rt_sigqueueinfo, rt_tgsigqueueinfo or pidfd_send_signal: the calls that let a process choose si_code. */
static __always_inline bool in_sigqueue_call(void)
{
	struct pt_regs *regs = user_regs();

#if defined(__TARGET_ARCH_x86)
	long nr = regs->orig_ax;

	if (regs->cs == 0x23) /* a 32-bit program */
		return nr == 178 || nr == 335 || nr == 424;
	if (nr > 0)
		nr &= ~0x40000000l; /* x32 */
	return nr == 129 || nr == 297 || nr == 424 || nr == 524 || nr == 536;
#else
	int nr = regs->syscallno;

	if (regs->pstate & 0x10) /* a 32-bit program */
		return nr == 178 || nr == 363 || nr == 424;
	return nr == 138 || nr == 240 || nr == 424;
#endif
}

struct fault_code {
	__u64 trap, code;
	bool known; /* it belongs to an access of memory: a page fault or a general protection fault */
};

static __always_inline bool fault_is_page_fault(const struct fault_code *f)
{
#if defined(__TARGET_ARCH_x86)
	return f->trap == 14;
#else
	return f->known;
#endif
}

/* Of the fault that the current task took last. */
static __always_inline struct fault_code last_fault_code(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct fault_code f = {0};

#if defined(__TARGET_ARCH_x86)
	f.trap = task->thread.trap_nr;
	f.code = task->thread.error_code;
	f.known = f.trap == 14 || f.trap == 13 || f.trap == 12 || f.trap == 17;
#else
	f.code = task->thread.fault_code;
	f.known = f.code != 0;
#endif
	return f;
}
