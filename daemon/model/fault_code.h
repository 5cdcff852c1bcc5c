/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a raw fault code says, in words, for the architectures that Linux runs on, whatever this program was built for.
 * The classes of x86 and arm64 are those of bpf/fault_class.h, so what is told here is what is counted. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/fault_abi.h"

enum fault_arch {
	FAULT_ARCH_X86,
	FAULT_ARCH_ARM64,
	FAULT_ARCH_RISCV,
	FAULT_ARCH_S390,
	FAULT_ARCH_POWERPC,
	FAULT_ARCH_ARM,
	FAULT_ARCH_LOONGARCH,
	FAULT_ARCH_UNKNOWN
};

/* For a list of what fault_arch_by_name() takes; it takes the machine names of uname(1), too. */
#define FAULT_ARCH_NAMES "x86_64, arm64, riscv64, s390x, powerpc, arm, loongarch64"

/* The architecture this program was built for. */
enum fault_arch fault_arch_here(void);
/* FAULT_ARCH_UNKNOWN if there is none of that name. */
enum fault_arch fault_arch_by_name(const char *name);
/* One of FAULT_ARCH_NAMES, or "unknown". */
const char *fault_arch_name(enum fault_arch arch);

/* Where the fault was taken is for the code to tell. Only x86 and arm64 do; the USER bit of x86 is clear, too, for what
 * the processor itself looks up in its tables while it runs a program. */
#define FAULT_MODE_BY_CODE FAULT_MODES

/* x86: the page-fault error code. arm64: ESR_EL1. riscv: scause. arm: FSR, bit 31 set by Linux for a prefetch abort, bit
 * 9 for the long format. loongarch: the exception code, or ESTAT that holds it (64 and above).
 * s390: the interruption code, with `more` the translation-exception identification (TEID).
 * powerpc (Book3S): DSISR, or SRR1 if `more`, the trap, is 0x400. */
struct fault_raw {
	enum fault_arch arch;
	uint32_t mode; /* enum fault_mode if it is known; FAULT_MODE_BY_CODE and above: not */
	uint64_t code;
	bool has_more;
	uint64_t more;
};

/* Whether `more` means something there. */
bool fault_arch_has_more(enum fault_arch arch);

#define FAULT_DETAILS_BYTES 256
#define FAULT_MEANING_BYTES 1024

struct fault_code {
	const char *mode, *access,
	    *kind;          /* static; as daemon/model/fault.h names them, "unknown" if the code does not tell */
	bool is_page_fault; /* Linux takes it for one, and counts it */
	char details[FAULT_DETAILS_BYTES]; /* names of the bits and fields, "PROT|WRITE|USER"; "" if none is set */
	char meaning[FAULT_MEANING_BYTES]; /* the same for people, without mode, access and kind; not empty */
	const char
	    *signal; /* static: what a process in user mode gets, and when; NULL: none, or not for this code to tell */
};

/* Any code is good. */
void fault_code_decode(const struct fault_raw *raw, struct fault_code *ret);
