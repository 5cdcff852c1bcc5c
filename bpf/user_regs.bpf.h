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

/* The kernel was entered by an exception or an interrupt, not by a system call. */
static __always_inline bool in_exception(void)
{
#if defined(__TARGET_ARCH_x86)
	return (long)user_regs()->orig_ax == -1;
#else
	return user_regs()->syscallno == -1;
#endif
}

struct system_call {
	long nr;
	long second, third; /* arguments */
	bool is_compat;     /* of the 32-bit architecture: another table */
};

static __always_inline struct system_call system_call(void)
{
	struct pt_regs *regs = user_regs();
	struct system_call c = {0};

#if defined(__TARGET_ARCH_x86)
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	c.nr = regs->orig_ax;
	/* TS_COMPAT. The code segment does not tell: 64-bit programs can enter by int $0x80. */
	c.is_compat = task->thread_info.status & 2;
	c.second = c.is_compat ? regs->cx : regs->si;
	c.third = regs->dx;
	if (!c.is_compat && c.nr > 0)
		c.nr &= ~0x40000000l; /* x32 */
#else
	c.nr = regs->syscallno;
	c.is_compat = regs->pstate & 0x10;
	c.second = regs->regs[1];
	c.third = regs->regs[2];
#endif
	return c;
}

/* The current task is inside a call that lets it choose si_code, for this signal: rt_sigqueueinfo, rt_tgsigqueueinfo or
 * pidfd_send_signal. Another signal's frame that fails to be set up in such a call is not forged. */
static __always_inline bool in_sigqueue_call(int sig)
{
	struct system_call c = system_call();
	bool queue, tgqueue;

#if defined(__TARGET_ARCH_x86)
	queue = c.is_compat ? c.nr == 178 : c.nr == 129 || c.nr == 524;
	tgqueue = c.is_compat ? c.nr == 335 : c.nr == 297 || c.nr == 536;
#else
	queue = c.is_compat ? c.nr == 178 : c.nr == 138;
	tgqueue = c.is_compat ? c.nr == 363 : c.nr == 240;
#endif
	if (queue || c.nr == 424)
		return (int)c.second == sig;
	return tgqueue && (int)c.third == sig;
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
