/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts page faults per cgroup and class at exceptions:page_fault_user and exceptions:page_fault_kernel.
 * Arguments of both: address, registers, raw error code.
 *
 * Each program is there twice, for ids of v2 and for ids of the memory controller's hierarchy (_mem); the daemon loads one of the two.
 * A constant set before load would not do: its branch goes, but reading it stays, two instructions for each fault.
 */
#include "bpf/slots.bpf.h"
#include "bpf/fault_class.h"

/* Set by the daemon before load: the programs can be preempted by one another on their CPU. */
const volatile bool preemptible = false;

static __always_inline int count(__u32 class, bool memory)
{
	struct fault_cell *cell = cell_of_current(memory);

	if (unlikely(!cell || class >= FAULT_CLASSES)) {
		drop_count(FAULT_DROP_UNCOUNTED);
		return 0;
	}
	/* At the tracepoints of x86 interrupts are off, the kernel runs a program only once per CPU at a time (an NMI's fault
	 * included), and user and kernel faults count in different words: nobody else writes this one. */
	if (preemptible)
		__sync_fetch_and_add(&cell->count[class], 1);
	else
		*(volatile __u64 *)&cell->count[class] += 1;
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(fault_class_x86(FAULT_USER, error_code), false);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(page_fault_kern, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(fault_class_x86(FAULT_KERNEL, error_code), false);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user_mem, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(fault_class_x86(FAULT_USER, error_code), true);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_kern_mem, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(fault_class_x86(FAULT_KERNEL, error_code), true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
