/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts page faults per cgroup and class, by whichever way the kernel offers; the daemon loads the programs of one way:
 *
 * - exceptions:page_fault_user and exceptions:page_fault_kernel. Arguments: address, registers, raw error code.
 * - fentry of arm64's do_mem_abort(far, esr, registers), where all aborts pass, page faults and others.
 * - the software event page-faults, which tells neither access nor kind.
 *
 * Each program is there twice, for ids of v2 and for ids of the memory controller's hierarchy (_mem).
 * A constant set before load would not do: its branch goes, but reading it stays, two instructions for each fault.
 */
#include "bpf/fault_class.h"
#include "bpf/slots.bpf.h"

/* Set by the daemon before load: the programs can be preempted by one another on their CPU. */
const volatile bool preemptible = false;
/* Of the software event: each run stands for so many faults. */
const volatile __u32 period = 1;
/* Bits of do_mem_abort's second argument that mean something: it was 32 bits wide before 5.14. */
const volatile __u64 esr_mask = ~0ull;

static __always_inline int count(__u32 class, __u64 n, bool memory)
{
	struct fault_cell *cell = cell_of_current(memory);

	if (unlikely(!cell || class >= FAULT_CLASSES)) {
		drop_count(FAULT_DROP_UNCOUNTED);
		return 0;
	}
	/* At the tracepoints of x86 interrupts are off, the kernel runs a program only once per CPU at a time (an NMI's fault
	 * included), and user and kernel faults count in different words: nobody else writes this one. */
	if (preemptible)
		__sync_fetch_and_add(&cell->count[class], n);
	else
		*(volatile __u64 *)&cell->count[class] += n;
	return 0;
}

static __always_inline __u32 class_of(__u32 mode, __u64 error_code)
{
#if defined(__TARGET_ARCH_x86)
	return fault_class_x86(mode, error_code);
#else
	return fault_class_arm64(mode, error_code);
#endif
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(page_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(class_of(FAULT_USER, error_code), 1, false);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(page_fault_kern, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(class_of(FAULT_KERNEL, error_code), 1, false);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user_mem, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(class_of(FAULT_USER, error_code), 1, true);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_kern_mem, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return count(class_of(FAULT_KERNEL, error_code), 1, true);
}

static __always_inline int count_abort(__u64 far, __u64 esr, bool memory)
{
	if (!fault_is_arm64_page_fault_at(far, esr))
		return 0;
	return count(fault_class_arm64(fault_is_arm64_user(esr) ? FAULT_USER : FAULT_KERNEL, esr), 1, memory);
}

/* "?": only if asked for; other architectures have no such function. */
SEC("?fentry/do_mem_abort")
int BPF_PROG(mem_abort, unsigned long far, unsigned long esr, struct pt_regs *regs)
{
	return count_abort(far, esr & esr_mask, false);
}

SEC("?fentry/do_mem_abort")
int BPF_PROG(abort_mem, unsigned long far, unsigned long esr, struct pt_regs *regs)
{
	return count_abort(far, esr & esr_mask, true);
}

/* What the program at a perf event is handed: user space's layout, not the kernel's. */
struct perf_event_context {
#if defined(__TARGET_ARCH_x86)
	__u64 regs[21];
#else
	__u64 regs[34];
#endif
	__u64 sample_period;
	__u64 address;
};

static __always_inline bool in_user_mode(const struct perf_event_context *ctx)
{
#if defined(__TARGET_ARCH_x86)
	return ctx->regs[17] & 3; /* the code segment's privilege level */
#else
	return (ctx->regs[33] & 0xf) == 0; /* PSTATE: EL0 */
#endif
}

static __always_inline int count_event(const struct perf_event_context *ctx, bool memory)
{
	return count(FAULT_CLASS_MODE_ONLY(in_user_mode(ctx) ? FAULT_USER : FAULT_KERNEL), period, memory);
}

SEC("perf_event")
int perf_fault(struct perf_event_context *ctx)
{
	return count_event(ctx, false);
}

SEC("perf_event")
int perf_fault_mem(struct perf_event_context *ctx)
{
	return count_event(ctx, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
