/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a raw error code to a class, one pure function per architecture. The BPF programs and the daemon compile the
 * same text, so they cannot disagree. See Intel SDM vol. 3 "Page-fault exceptions" and arch/x86/include/asm/trap_pf.h;
 * Arm ARM "ESR_EL1" and arch/arm64/include/asm/esr.h.
 */
#pragma once

#include "bpf/fault_abi.h"

#define X86_PF_PROT (1u << 0)
#define X86_PF_WRITE (1u << 1)
#define X86_PF_USER (1u << 2)
#define X86_PF_RSVD (1u << 3)
#define X86_PF_INSTR (1u << 4)
#define X86_PF_PK (1u << 5)
#define X86_PF_SHSTK (1u << 6)
#define X86_PF_SGX (1u << 15)
#define X86_PF_RMP (1u << 31)

/* The mode is an argument: the kernel tells user from kernel by the registers, not by the USER bit, and the two differ
 * for implicit supervisor accesses. Bits unknown here leave access as it is and make the kind `other` only if they are
 * known to be neither a missing page nor a permission. */
static inline __u32 fault_class_x86(__u32 mode, __u64 error_code)
{
	const __u64 other = X86_PF_PK | X86_PF_RSVD | X86_PF_SGX | X86_PF_RMP;
	__u32 access = error_code & X86_PF_INSTR                    ? FAULT_EXEC
		       : error_code & (X86_PF_WRITE | X86_PF_SHSTK) ? FAULT_WRITE
								    : FAULT_READ;
	__u32 kind = error_code & other ? FAULT_OTHER : error_code & X86_PF_PROT ? FAULT_PROTECTION : FAULT_MISSING;

	return FAULT_CLASS(mode, access, kind);
}

#define ARM64_ESR_EC(esr) ((__u32)((esr) >> 26) & 0x3f)
#define ARM64_EC_INSTRUCTION_USER 0x20
#define ARM64_EC_INSTRUCTION_KERNEL 0x21
#define ARM64_EC_DATA_USER 0x24
#define ARM64_EC_DATA_KERNEL 0x25
#define ARM64_ESR_FSC(esr) ((__u32)(esr)&0x3f)
#define ARM64_ESR_WNR (1u << 6)
#define ARM64_ESR_CM (1u << 8)
#define ARM64_ESR_GCS (1ull << 40)

/* Whether the ESR is of an abort, which alone has an access and a fault status. */
static inline __u32 fault_is_arm64_abort(__u64 esr)
{
	__u32 ec = ARM64_ESR_EC(esr);

	return ec == ARM64_EC_INSTRUCTION_USER || ec == ARM64_EC_INSTRUCTION_KERNEL || ec == ARM64_EC_DATA_USER ||
	       ec == ARM64_EC_DATA_KERNEL;
}

static inline __u32 fault_is_arm64_user(__u64 esr)
{
	return ARM64_ESR_EC(esr) == ARM64_EC_INSTRUCTION_USER || ARM64_ESR_EC(esr) == ARM64_EC_DATA_USER;
}

/* Whether the kernel takes the abort for a page fault: those that fault_info[] of arch/arm64/mm/fault.c gives to
 * do_translation_fault() or do_page_fault(), that is translation (level -1, too), access flag and permission. External
 * aborts, tag checks, alignment and the like go elsewhere. Older kernels (6.1) do not know level 0 of access flag and
 * permission: only translation with LPA2, which they do not use, raises it. */
static inline __u32 fault_is_arm64_page_fault(__u64 esr)
{
	__u32 fsc = ARM64_ESR_FSC(esr);

	return fault_is_arm64_abort(esr) && ((fsc >= 0x04 && fsc <= 0x0f) || fsc == 0x2b);
}

/* The same for who sees the address, too, as do_mem_abort() does: a translation fault in the kernel's half is a bad
 * access at once (do_translation_fault() calls do_bad_area()) and gets neither to do_page_fault() nor to the software
 * event. The half is told by bit 55, since the byte above may be a tag. The few addresses between the user's last and
 * the kernel's first one, which no mapping can have, are still let through. */
static inline __u32 fault_is_arm64_page_fault_at(__u64 far, __u64 esr)
{
	__u32 fsc = ARM64_ESR_FSC(esr);

	if (!fault_is_arm64_page_fault(esr))
		return 0;
	return !(far & (1ull << 55)) || (fsc >= 0x08 && fsc <= 0x0f);
}

/* A cache operation sets WnR, too, and the kernel calls it a read; an access to a guarded control stack it calls a
 * write. WnR means nothing for an instruction. What is no abort is a read of kind `other`. */
static inline __u32 fault_class_arm64(__u32 mode, __u64 esr)
{
	__u32 ec = ARM64_ESR_EC(esr), fsc = ARM64_ESR_FSC(esr), access = FAULT_READ, kind = FAULT_OTHER;

	if (!fault_is_arm64_abort(esr))
		return FAULT_CLASS(mode, FAULT_READ, FAULT_OTHER);
	if (ec == ARM64_EC_INSTRUCTION_USER || ec == ARM64_EC_INSTRUCTION_KERNEL)
		access = FAULT_EXEC;
	else if ((esr & ARM64_ESR_GCS) || ((esr & ARM64_ESR_WNR) && !(esr & ARM64_ESR_CM)))
		access = FAULT_WRITE;
	/* Levels 0 to 3, and level -1 of a translation (52-bit addresses). */
	if ((fsc & 0x3c) == 0x04 || fsc == 0x2b)
		kind = FAULT_MISSING;
	else if ((fsc & 0x3c) == 0x0c)
		kind = FAULT_PROTECTION;
	return FAULT_CLASS(mode, access, kind);
}
