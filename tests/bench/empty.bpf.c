/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The least that a program at each of the places where page faults are counted can cost: the yardstick of bench.py. */
#include "bpf/ktypes.h"

SEC("?tp_btf/page_fault_user")
int BPF_PROG(empty_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return 0;
}

SEC("?tp_btf/page_fault_kernel")
int BPF_PROG(empty_kern, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return 0;
}

SEC("?fentry/do_mem_abort")
int BPF_PROG(empty_abort, unsigned long far, unsigned long esr, struct pt_regs *regs)
{
	return 0;
}

SEC("?perf_event")
int empty_event(void *ctx)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
