/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a raw error code to a class, one pure function per architecture. The BPF programs and the daemon compile the same
 * text, so they cannot disagree. See Intel SDM vol. 3 "Page-fault exceptions" and arch/x86/include/asm/trap_pf.h.
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
