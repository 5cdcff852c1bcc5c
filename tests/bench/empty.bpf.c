/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The least that a program at the page-fault tracepoints can cost: the yardstick of bench.py. */
#include "bpf/ktypes.h"

SEC("tp_btf/page_fault_user")
int BPF_PROG(empty_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(empty_kern, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
