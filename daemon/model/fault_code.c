/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/fault_code.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bpf/fault_class.h"
#include "daemon/base/cleanup.h"
#include "daemon/model/fault.h"
#include "daemon/model/fault_code_parts.h"

/* ---- architectures ---- */

/* The first name of each is the one in FAULT_ARCH_NAMES. */
static const struct arch_name {
	const char *name;
	enum fault_arch arch;
} arch_names[] = {
    {"x86_64", FAULT_ARCH_X86},
    {"i686", FAULT_ARCH_X86},
    {"i386", FAULT_ARCH_X86},
    {"arm64", FAULT_ARCH_ARM64},
    {"aarch64", FAULT_ARCH_ARM64},
    {"riscv64", FAULT_ARCH_RISCV},
    {"riscv", FAULT_ARCH_RISCV},
    {"s390x", FAULT_ARCH_S390},
    {"s390", FAULT_ARCH_S390},
    {"powerpc", FAULT_ARCH_POWERPC},
    {"ppc64", FAULT_ARCH_POWERPC},
    {"ppc64le", FAULT_ARCH_POWERPC},
    {"arm", FAULT_ARCH_ARM},
    {"armv7l", FAULT_ARCH_ARM},
    {"loongarch64", FAULT_ARCH_LOONGARCH},
    {"loongarch", FAULT_ARCH_LOONGARCH},
};

enum fault_arch fault_arch_here(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return FAULT_ARCH_X86;
#elif defined(__aarch64__)
	return FAULT_ARCH_ARM64;
#elif defined(__riscv)
	return FAULT_ARCH_RISCV;
#elif defined(__s390__)
	return FAULT_ARCH_S390;
#elif defined(__powerpc64__)
	return FAULT_ARCH_POWERPC;
#elif defined(__arm__)
	return FAULT_ARCH_ARM;
#elif defined(__loongarch__)
	return FAULT_ARCH_LOONGARCH;
#else
	return FAULT_ARCH_UNKNOWN;
#endif
}

enum fault_arch fault_arch_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(arch_names); i++)
		if (strcmp(arch_names[i].name, name) == 0)
			return arch_names[i].arch;
	return FAULT_ARCH_UNKNOWN;
}

const char *fault_arch_name(enum fault_arch arch)
{
	for (size_t i = 0; i < ARRAY_SIZE(arch_names); i++)
		if (arch_names[i].arch == arch)
			return arch_names[i].name;
	return "unknown";
}

bool fault_arch_has_more(enum fault_arch arch)
{
	return arch == FAULT_ARCH_S390 || arch == FAULT_ARCH_POWERPC;
}

/* ---- parts ---- */

void fault_code_class(struct fault_code *c, uint32_t mode, uint32_t access, uint32_t kind)
{
	struct fault_class names =
	    fault_class_names(FAULT_CLASS(mode % FAULT_MODES, access % FAULT_ACCESSES, kind % FAULT_KINDS));

	c->mode = mode < FAULT_MODES ? names.mode : "unknown";
	c->access = access < FAULT_ACCESSES ? names.access : "unknown";
	c->kind = kind < FAULT_KINDS ? names.kind : "unknown";
}

static void append(char *to, size_t size, const char *separator, const char *format, va_list args)
{
	size_t len = strlen(to);

	if (len && len < size)
		len += (size_t)snprintf(to + len, size - len, "%s", separator);
	if (len < size)
		vsnprintf(to + len, size - len, format, args);
}

void fault_code_detail(struct fault_code *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(c->details, sizeof(c->details), "|", format, args);
	va_end(args);
}

void fault_code_words(struct fault_code *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(c->meaning, sizeof(c->meaning), ", ", format, args);
	va_end(args);
}

uint64_t fault_code_names(struct fault_code *c, uint64_t code, const struct fault_bit *bits, size_t n)
{
	uint64_t known = 0;

	for (size_t i = 0; i < n; i++) {
		known |= bits[i].bit;
		if (code & bits[i].bit)
			fault_code_detail(c, "%s", bits[i].name);
	}
	return code & ~known;
}

void fault_code_bit_words(struct fault_code *c, uint64_t code, const struct fault_bit *bits, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((code & bits[i].bit) && bits[i].words)
			fault_code_words(c, "%s", bits[i].words);
}

const struct fault_cause *fault_cause_find(const struct fault_cause *causes, size_t n, uint64_t code)
{
	for (size_t i = 0; i < n; i++)
		if (causes[i].code == code)
			return &causes[i];
	return NULL;
}

void fault_code_cause(struct fault_code *c, uint32_t mode, const struct fault_cause *cause, const char *what,
		      uint64_t code)
{
	if (!cause) {
		fault_code_class(c, mode, ACCESS_UNKNOWN, KIND_UNKNOWN);
		fault_code_detail(c, "0x%" PRIx64, code);
		fault_code_words(c, "%s 0x%" PRIx64, what, code);
		return;
	}
	fault_code_class(c, mode, cause->access, cause->kind);
	fault_code_detail(c, "%s", cause->name);
	fault_code_words(c, "%s", cause->words);
	c->is_page_fault = cause->is_page_fault;
	c->signal = cause->signal;
}

/* ---- x86: arch/x86/include/asm/trap_pf.h and mm/fault.c ---- */

static const char *signal_x86(uint64_t code)
{
	if (code & X86_PF_RSVD)
		return "SIGKILL and an oops, the page table is corrupt";
	if (code & X86_PF_PK)
		return "SEGV_PKUERR";
	if (code & X86_PF_SGX)
		return "SEGV_ACCERR";
	return code & X86_PF_PROT ? SIGNAL_DENIED ", SEGV_MAPERR at an address of the kernel" : SIGNAL_MISSING;
}

static void decode_x86(const struct fault_raw *raw, struct fault_code *ret)
{
	static const struct fault_bit bits[] = {
	    {X86_PF_PROT, "PROT", NULL},
	    {X86_PF_WRITE, "WRITE", NULL},
	    {X86_PF_USER, "USER", NULL},
	    {X86_PF_RSVD, "RSVD", "reserved bit set in a page-table entry"},
	    {X86_PF_INSTR, "INSTR", "instruction fetch"},
	    {X86_PF_PK, "PK", "forbidden by a protection key"},
	    {X86_PF_SHSTK, "SHSTK", "access to a shadow stack"},
	    {X86_PF_SGX, "SGX", "forbidden by SGX"},
	    {X86_PF_RMP, "RMP", "against SEV-SNP's reverse map table"},
	};
	uint64_t code = raw->code, rest;
	uint32_t mode = raw->mode < FAULT_MODES ? raw->mode : code & X86_PF_USER ? FAULT_USER : FAULT_KERNEL;
	struct fault_class names = fault_class_names(fault_class_x86(mode, code));

	ret->mode = names.mode;
	ret->access = names.access;
	ret->kind = names.kind;
	ret->is_page_fault = true;
	rest = fault_code_names(ret, code, bits, ARRAY_SIZE(bits));
	if (rest)
		fault_code_detail(ret, "0x%" PRIx64, rest);
	if (*ret->details)
		fault_code_words(ret, "%s", ret->details);
	fault_code_words(ret, "%s", code & X86_PF_PROT ? "page present and access denied" : "page not present");
	fault_code_bit_words(ret, code, bits, ARRAY_SIZE(bits));
	ret->signal = signal_x86(code);
}

/* ---- riscv: the Privileged Architecture's table of scause, arch/riscv/include/asm/csr.h and kernel/traps.c ---- */

#define RISCV_INTERRUPT (UINT64_C(1) << 63)
#define RISCV_ECALL_USER 8

static const struct fault_cause riscv_causes[] = {
    {0, "INST_MISALIGNED", "instruction address misaligned", FAULT_EXEC, FAULT_OTHER, false, "BUS_ADRALN"},
    {1, "INST_ACCESS", "instruction access fault", FAULT_EXEC, FAULT_OTHER, false, "SEGV_ACCERR"},
    {2, "ILLEGAL", "illegal instruction", ACCESS_UNKNOWN, KIND_UNKNOWN, false, "ILL_ILLOPC"},
    {3, "BREAKPOINT", "breakpoint", ACCESS_UNKNOWN, KIND_UNKNOWN, false, "TRAP_BRKPT"},
    {4, "LOAD_MISALIGNED", "load address misaligned", FAULT_READ, FAULT_OTHER, false, "BUS_ADRALN if not emulated"},
    {5, "LOAD_ACCESS", "load access fault", FAULT_READ, FAULT_OTHER, false, "SEGV_ACCERR"},
    {6, "STORE_MISALIGNED", "store or AMO address misaligned", FAULT_WRITE, FAULT_OTHER, false,
     "BUS_ADRALN if not emulated"},
    {7, "STORE_ACCESS", "store or AMO access fault", FAULT_WRITE, FAULT_OTHER, false, "SEGV_ACCERR"},
    {RISCV_ECALL_USER, "ECALL_U", "system call", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
    {9, "ECALL_S", "environment call from supervisor mode", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
    {10, "ECALL_VS", "environment call from virtual supervisor mode", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
    {11, "ECALL_M", "environment call from machine mode", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
    {12, "INST_PAGE_FAULT", "instruction page fault", FAULT_EXEC, KIND_UNKNOWN, true, SIGNAL_EITHER},
    {13, "LOAD_PAGE_FAULT", "load page fault", FAULT_READ, KIND_UNKNOWN, true, SIGNAL_EITHER},
    {15, "STORE_PAGE_FAULT", "store or AMO page fault", FAULT_WRITE, KIND_UNKNOWN, true, SIGNAL_EITHER},
    {18, "SOFTWARE_CHECK", "software check (control-flow integrity)", ACCESS_UNKNOWN, KIND_UNKNOWN, false,
     "SEGV_CPERR"},
    {20, "INST_GUEST_PAGE_FAULT", "instruction page fault of a guest", FAULT_EXEC, FAULT_OTHER, false, NULL},
    {21, "LOAD_GUEST_PAGE_FAULT", "load page fault of a guest", FAULT_READ, FAULT_OTHER, false, NULL},
    {22, "VIRTUAL_INST", "virtual instruction", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
    {23, "STORE_GUEST_PAGE_FAULT", "store or AMO page fault of a guest", FAULT_WRITE, FAULT_OTHER, false, NULL},
};

static void decode_riscv(const struct fault_raw *raw, struct fault_code *ret)
{
	uint64_t cause = raw->code;
	uint32_t mode = raw->mode;

	if (cause & RISCV_INTERRUPT) {
		fault_code_class(ret, mode, ACCESS_UNKNOWN, KIND_UNKNOWN);
		fault_code_detail(ret, "INTERRUPT");
		fault_code_words(ret, "interrupt %" PRIu64, cause & ~RISCV_INTERRUPT);
		return;
	}
	if (mode >= FAULT_MODES && cause == RISCV_ECALL_USER)
		mode = FAULT_USER;
	fault_code_cause(ret, mode, fault_cause_find(riscv_causes, ARRAY_SIZE(riscv_causes), cause), "unknown cause",
			 cause);
}

/* ---- loongarch: arch/loongarch/include/asm/loongarch.h and kernel/traps.c ---- */

static const struct fault_cause loongarch_causes[] = {
    {1, "TLBL", "page invalid for a load", FAULT_READ, FAULT_MISSING, true, SIGNAL_MISSING},
    {2, "TLBS", "page invalid for a store", FAULT_WRITE, FAULT_MISSING, true, SIGNAL_MISSING},
    {3, "TLBI", "page invalid for a fetch", FAULT_EXEC, FAULT_MISSING, true, SIGNAL_MISSING},
    {4, "TLBM", "store to a page that is not dirty", FAULT_WRITE, FAULT_PROTECTION, true, SIGNAL_DENIED},
    {5, "TLBNR", "page not readable", FAULT_READ, FAULT_PROTECTION, true, SIGNAL_DENIED},
    {6, "TLBNX", "page not executable", FAULT_EXEC, FAULT_PROTECTION, true, SIGNAL_DENIED},
    {7, "TLBPE", "page of a higher privilege", ACCESS_UNKNOWN, FAULT_PROTECTION, true, SIGNAL_DENIED},
    {8, "ADE", "address error", ACCESS_UNKNOWN, FAULT_OTHER, false, "BUS_ADRERR"},
    {9, "ALE", "address not aligned", ACCESS_UNKNOWN, FAULT_OTHER, false, "BUS_ADRALN if not emulated"},
    {10, "BCE", "bounds check failed", ACCESS_UNKNOWN, FAULT_OTHER, false, "SEGV_BNDERR"},
    {11, "SYS", "system call", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
    {12, "BP", "breakpoint", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
    {13, "INE", "instruction does not exist", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
    {14, "IPE", "instruction is privileged", ACCESS_UNKNOWN, KIND_UNKNOWN, false, NULL},
};

static void decode_loongarch(const struct fault_raw *raw, struct fault_code *ret)
{
	/* Exception codes have six bits; in ESTAT they stand above the interrupts' bits. */
	uint64_t code = raw->code < 64 ? raw->code : raw->code >> 16 & 0x3f;

	fault_code_cause(ret, raw->mode, fault_cause_find(loongarch_causes, ARRAY_SIZE(loongarch_causes), code),
			 "exception", code);
}

/* ---- the way in ---- */

static void decode_unknown(const struct fault_raw *raw, struct fault_code *ret)
{
	fault_code_class(ret, raw->mode, ACCESS_UNKNOWN, KIND_UNKNOWN);
	fault_code_words(ret, "the architecture's codes are not known");
}

void fault_code_decode(const struct fault_raw *raw, struct fault_code *ret)
{
	static void (*const decoders[])(const struct fault_raw *, struct fault_code *) = {
	    [FAULT_ARCH_X86] = decode_x86,
	    [FAULT_ARCH_ARM64] = fault_code_arm64,
	    [FAULT_ARCH_RISCV] = decode_riscv,
	    [FAULT_ARCH_S390] = fault_code_s390,
	    [FAULT_ARCH_POWERPC] = fault_code_powerpc,
	    [FAULT_ARCH_ARM] = fault_code_arm,
	    [FAULT_ARCH_LOONGARCH] = decode_loongarch,
	    [FAULT_ARCH_UNKNOWN] = decode_unknown,
	};

	*ret = (struct fault_code){0};
	decoders[raw->arch < FAULT_ARCH_UNKNOWN ? raw->arch : FAULT_ARCH_UNKNOWN](raw, ret);
	if (strcmp(ret->mode, "kernel") == 0)
		ret->signal = NULL;
	if (!ret->is_page_fault && strcmp(ret->access, "unknown") != 0)
		fault_code_words(ret, "not handled as a page fault");
}
