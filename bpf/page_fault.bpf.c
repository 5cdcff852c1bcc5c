/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts page faults per cgroup and class at exceptions:page_fault_user and exceptions:page_fault_kernel.
 * Arguments of both: address, registers, raw error code.
 */
#include "bpf/slots.bpf.h"
#include "bpf/fault_class.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fault_cell);
} fault_cells SEC(".maps");

static __always_inline int count(__u32 class)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 at = cpu * nr_slots + slot_of_current(cpu);
	struct fault_cell *cell = bpf_map_lookup_elem(&fault_cells, &at);

	if (unlikely(!cell || class >= FAULT_CLASSES)) {
		drop_count(FAULT_DROP_UNCOUNTED);
		return 0;
	}
	/* Atomic on the CPU's own cell: an NMI or, on kernels >= 7, a preempting task may count here in between. */
	__sync_fetch_and_add(&cell->count[class], 1);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(fault_class_x86(FAULT_USER, error_code));
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(page_fault_kern, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(fault_class_x86(FAULT_KERNEL, error_code));
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
