/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes of arm64 and arm. Meanings after the Arm Architecture Reference Manual (DDI 0487, "ESR_EL1"; DDI 0406, "Fault
 * Status Registers"); signals after fault_info[] of arch/arm64/mm/fault.c and fsr_info[] of arch/arm/mm/fsr-*level.c.
 */
#include <inttypes.h>

#include "bpf/fault_class.h"
#include "daemon/base/cleanup.h"
#include "daemon/model/fault.h"
#include "daemon/model/fault_code_parts.h"

/* ---- fault status codes of arm64 and of arm's long format ---- */

#define NO_LEVEL 9

/* Runs of them differ in the level of the translation table. */
static const struct fsc_name {
	unsigned first, last;
	int level; /* of the first one, or NO_LEVEL */
	const char *name, *words;
	const char *signal; /* of arm64 */
} fsc_names[] = {
    {0x00, 0x03, 0, "ADDRESS_SIZE", "address size fault", "SIGKILL"},
    {0x04, 0x07, 0, "TRANSLATION", "translation fault", SIGNAL_MISSING},
    {0x08, 0x0b, 0, "ACCESS_FLAG", "access flag fault", SIGNAL_DENIED},
    {0x0c, 0x0f, 0, "PERMISSION", "permission fault", SIGNAL_DENIED},
    {0x10, 0x10, NO_LEVEL, "EXTERNAL_ABORT", "synchronous external abort", "BUS_OBJERR"},
    {0x11, 0x11, NO_LEVEL, "TAG_CHECK", "tag check fault", "SEGV_MTESERR"},
    {0x12, 0x12, -2, "EXTERNAL_ABORT_ON_WALK", "synchronous external abort on a table walk", "SIGKILL"},
    {0x13, 0x13, -1, "EXTERNAL_ABORT_ON_WALK", "synchronous external abort on a table walk", "SIGKILL"},
    {0x14, 0x17, 0, "EXTERNAL_ABORT_ON_WALK", "synchronous external abort on a table walk", "SIGKILL"},
    {0x18, 0x18, NO_LEVEL, "PARITY", "synchronous parity or ECC error", "BUS_OBJERR"},
    {0x1b, 0x1b, -1, "PARITY_ON_WALK", "synchronous parity or ECC error on a table walk", "SIGKILL"},
    {0x1c, 0x1f, 0, "PARITY_ON_WALK", "synchronous parity or ECC error on a table walk", "SIGKILL"},
    {0x21, 0x21, NO_LEVEL, "ALIGNMENT", "alignment fault", "BUS_ADRALN"},
    {0x22, 0x22, -2, "GRANULE_PROTECTION_ON_WALK", "granule protection fault on a table walk", "SIGKILL"},
    {0x23, 0x23, -1, "GRANULE_PROTECTION_ON_WALK", "granule protection fault on a table walk", "SIGKILL"},
    {0x24, 0x27, 0, "GRANULE_PROTECTION_ON_WALK", "granule protection fault on a table walk", "SIGKILL"},
    {0x28, 0x28, NO_LEVEL, "GRANULE_PROTECTION", "granule protection fault", "SIGKILL"},
    {0x29, 0x29, -1, "ADDRESS_SIZE", "address size fault", "SIGKILL"},
    /* Linux has no tables that deep and takes this one for unknown. */
    {0x2a, 0x2a, -2, "TRANSLATION", "translation fault", "SIGKILL"},
    {0x2b, 0x2b, -1, "TRANSLATION", "translation fault", SIGNAL_MISSING},
    {0x2c, 0x2c, -2, "ADDRESS_SIZE", "address size fault", "SIGKILL"},
    {0x30, 0x30, NO_LEVEL, "TLB_CONFLICT", "TLB conflict", "SIGKILL"},
    {0x31, 0x31, NO_LEVEL, "ATOMIC_UPDATE", "unsupported atomic hardware update", "SIGKILL"},
    {0x34, 0x34, NO_LEVEL, "LOCKDOWN", "implementation defined fault (lockdown)", "SIGKILL"},
    {0x35, 0x35, NO_LEVEL, "EXCLUSIVE_OR_ATOMIC", "unsupported exclusive or atomic access", "BUS_OBJERR"},
    {0x3d, 0x3d, NO_LEVEL, "SECTION_DOMAIN", "section domain fault", "SIGKILL"},
    {0x3e, 0x3e, NO_LEVEL, "PAGE_DOMAIN", "page domain fault", "SIGKILL"},
};

static const struct fsc_name *find_fsc(unsigned fsc)
{
	for (size_t i = 0; i < ARRAY_SIZE(fsc_names); i++)
		if (fsc >= fsc_names[i].first && fsc <= fsc_names[i].last)
			return &fsc_names[i];
	return NULL;
}

static int level_of(const struct fsc_name *name, unsigned fsc)
{
	return name->level + (int)(fsc - name->first);
}

static void add_fsc_name(struct fault_code *c, const struct fsc_name *name, unsigned fsc)
{
	if (!name)
		fault_code_detail(c, "FSC_0x%02x", fsc);
	else if (name->level == NO_LEVEL)
		fault_code_detail(c, "%s", name->name);
	else
		fault_code_detail(c, "%s_L%d", name->name, level_of(name, fsc));
}

static void add_fsc_words(struct fault_code *c, const struct fsc_name *name, unsigned fsc)
{
	if (!name)
		fault_code_words(c, "unknown fault status 0x%02x", fsc);
	else if (name->level == NO_LEVEL)
		fault_code_words(c, "%s", name->words);
	else
		fault_code_words(c, "%s level %d", name->words, level_of(name, fsc));
}

/* ---- arm64: no abort ---- */

static const char *const ec_words[64] = {
    [0x00] = "unknown reason",
    [0x01] = "trapped WFI or WFE",
    [0x03] = "trapped MCR or MRC, coprocessor 15",
    [0x04] = "trapped MCRR or MRRC, coprocessor 15",
    [0x05] = "trapped MCR or MRC, coprocessor 14",
    [0x06] = "trapped LDC or STC, coprocessor 14",
    [0x07] = "trapped SIMD or floating point",
    [0x08] = "trapped VMRS",
    [0x09] = "trapped pointer authentication",
    [0x0a] = "trapped instruction of another kind",
    [0x0c] = "trapped MRRC, coprocessor 14",
    [0x0d] = "branch target exception",
    [0x0e] = "illegal execution state",
    [0x11] = "SVC of 32-bit code",
    [0x12] = "HVC of 32-bit code",
    [0x13] = "SMC of 32-bit code",
    [0x14] = "trapped MSRR, MRRS or 128-bit system instruction",
    [0x15] = "SVC of 64-bit code",
    [0x16] = "HVC of 64-bit code",
    [0x17] = "SMC of 64-bit code",
    [0x18] = "trapped MSR, MRS or system instruction",
    [0x19] = "trapped SVE",
    [0x1a] = "trapped ERET",
    [0x1c] = "pointer authentication failure",
    [0x1d] = "trapped SME",
    [0x1e] = "granule protection check",
    [0x1f] = "implementation defined",
    [0x22] = "PC alignment fault",
    [0x26] = "SP alignment fault",
    [0x27] = "memory copy or set (MOPS)",
    [0x28] = "floating point exception of 32-bit code",
    [0x2c] = "floating point exception of 64-bit code",
    [0x2d] = "guarded control stack exception",
    [0x2f] = "SError",
    [0x30] = "breakpoint, from a lower level",
    [0x31] = "breakpoint, same level",
    [0x32] = "software step, from a lower level",
    [0x33] = "software step, same level",
    [0x34] = "watchpoint, from a lower level",
    [0x35] = "watchpoint, same level",
    [0x38] = "BKPT of 32-bit code",
    [0x3a] = "vector catch of 32-bit code",
    [0x3c] = "BRK of 64-bit code",
};

static const char *signal_of_ec(unsigned ec)
{
	switch (ec) {
	case 0x0d:
		return "ILL_ILLOPC";
	case 0x22:
	case 0x26:
		return "BUS_ADRALN";
	case 0x2d:
		return "SEGV_CPERR";
	default:
		return NULL;
	}
}

/* Its other bits have another meaning. */
static void decode_no_abort(const struct fault_raw *raw, unsigned ec, struct fault_code *ret)
{
	fault_code_class(ret, raw->mode, ACCESS_UNKNOWN, KIND_UNKNOWN);
	fault_code_detail(ret, "EC_0x%02x", ec);
	fault_code_words(ret, "exception class 0x%02x, %s", ec, ec_words[ec] ? ec_words[ec] : "unallocated");
	ret->signal = signal_of_ec(ec);
}

/* ---- arm64: aborts ---- */

/* ISS, bits 24 to 0 */
#define ESR_S1PTW (UINT64_C(1) << 7)
#define ESR_EA (UINT64_C(1) << 9)
#define ESR_FNV (UINT64_C(1) << 10)
#define ESR_SET(esr) ((unsigned)((esr) >> 11) & 3)
#define ESR_VNCR (UINT64_C(1) << 13)
#define ESR_AR (UINT64_C(1) << 14)
#define ESR_SF (UINT64_C(1) << 15)
#define ESR_SRT(esr) ((unsigned)((esr) >> 16) & 0x1f)
#define ESR_SSE (UINT64_C(1) << 21)
#define ESR_SAS(esr) ((unsigned)((esr) >> 22) & 3)
#define ESR_ISV (UINT64_C(1) << 24)
/* ISS2, bits 55 to 32 */
#define ESR_DIRTY (UINT64_C(1) << 37)
#define ESR_OVERLAY (UINT64_C(1) << 38)
#define ESR_TAG_ACCESS (UINT64_C(1) << 41)
#define ESR_TND (UINT64_C(1) << 42)

static const struct fault_bit of_data[] = {
    {ARM64_ESR_WNR, "WNR", "WnR"},
    {ARM64_ESR_CM, "CM", "CM (cache maintenance)"},
    {ARM64_ESR_GCS, "GCS", "GCS (guarded control stack)"},
    {ESR_TAG_ACCESS, "TAG_ACCESS", "TagAccess (of an allocation tag)"},
    {ESR_DIRTY, "DIRTY", "DirtyBit (page not marked dirty)"},
    {ESR_TND, "TND", "TnD (tagged memory not allowed)"},
    {ESR_VNCR, "VNCR", "VNCR (nested virtualization)"},
};
static const struct fault_bit of_both[] = {
    {ESR_S1PTW, "S1PTW", "S1PTW (stage 2, on a stage 1 table walk)"},
    {ESR_EA, "EA", "EA (external abort type)"},
    {ESR_FNV, "FNV", "FnV (address not valid)"},
    {ESR_OVERLAY, "OVERLAY", "Overlay (permission overlay)"},
};

/* Valid for what a hypervisor emulates; an abort taken to EL1 leaves ISV clear and the others mean nothing. */
static void add_instruction(struct fault_code *c, uint64_t esr)
{
	fault_code_detail(c, "ISV");
	fault_code_words(c, "ISV (%u-byte%s, register %c%u%s)", 1u << ESR_SAS(esr),
			 esr & ESR_SSE ? ", sign-extended" : "", esr & ESR_SF ? 'x' : 'w', ESR_SRT(esr),
			 esr & ESR_AR ? ", acquire or release" : "");
}

/* Says how bad an external abort is, and nothing with other status codes. */
static void add_error_state(struct fault_code *c, uint64_t esr)
{
	static const char *const states[4] = {NULL, NULL, "uncontainable", "restartable"};
	const char *state = states[ESR_SET(esr)];

	if (ARM64_ESR_FSC(esr) == 0x10 && state)
		fault_code_words(c, "%s", state);
}

void fault_code_arm64(const struct fault_raw *raw, struct fault_code *ret)
{
	uint64_t esr = raw->code;
	unsigned ec = ARM64_ESR_EC(esr), fsc = ARM64_ESR_FSC(esr);
	bool data = ec == ARM64_EC_DATA_USER || ec == ARM64_EC_DATA_KERNEL;
	bool user = ec == ARM64_EC_DATA_USER || ec == ARM64_EC_INSTRUCTION_USER;
	uint32_t mode = raw->mode < FAULT_MODES ? raw->mode : user ? FAULT_USER : FAULT_KERNEL;
	const struct fsc_name *status = find_fsc(fsc);
	struct fault_class names;

	if (!fault_is_arm64_abort(esr)) {
		decode_no_abort(raw, ec, ret);
		return;
	}
	names = fault_class_names(fault_class_arm64(mode, esr));
	ret->mode = names.mode;
	ret->access = names.access;
	ret->kind = names.kind;
	ret->is_page_fault = fault_is_arm64_page_fault(esr);
	fault_code_detail(ret, data ? "DATA_ABORT" : "INSTRUCTION_ABORT");
	fault_code_words(ret, "%s abort from EL%d", data ? "data" : "instruction", user ? 0 : 1);
	add_fsc_words(ret, status, fsc);
	if (data) {
		fault_code_names(ret, esr, of_data, ARRAY_SIZE(of_data));
		fault_code_bit_words(ret, esr, of_data, ARRAY_SIZE(of_data));
	}
	fault_code_names(ret, esr, of_both, ARRAY_SIZE(of_both));
	fault_code_bit_words(ret, esr, of_both, ARRAY_SIZE(of_both));
	add_error_state(ret, esr);
	if (data && (esr & ESR_ISV))
		add_instruction(ret, esr);
	add_fsc_name(ret, status, fsc);
	ret->signal = status ? status->signal : "SIGKILL";
}

/* ---- arm ---- */

#define FSR_LONG (1u << 9)
#define FSR_WRITE (1u << 11)
#define FSR_EXT (1u << 12)
#define FSR_CM (1u << 13)
#define FSR_PREFETCH (1u << 31) /* Linux's own */

/* What the processor, not Linux, calls external. */
static const struct fault_bit of_fsr[] = {
    {FSR_PREFETCH, "PREFETCH", NULL},
    {FSR_LONG, "LPAE", NULL},
    {FSR_WRITE, "WRITE", "WRITE"},
    {FSR_EXT, "EXT", "EXT (external abort type)"},
    {FSR_CM, "CM", "CM (cache maintenance)"},
};

/* Short-descriptor format; access is told by other bits. */
static const struct fault_cause short_causes[] = {
    {0x01, "ALIGNMENT", "alignment fault", 0, FAULT_OTHER, false, "BUS_ADRALN"},
    {0x02, "DEBUG", "debug event", 0, FAULT_OTHER, false, NULL},
    {0x03, "SECTION_ACCESS_FLAG", "section access flag fault", 0, FAULT_OTHER, false, NULL},
    {0x04, "CACHE_MAINTENANCE", "instruction cache maintenance fault", 0, FAULT_OTHER, false, "SIGBUS"},
    {0x05, "SECTION_TRANSLATION", "section translation fault", 0, FAULT_MISSING, true, SIGNAL_MISSING},
    {0x06, "PAGE_ACCESS_FLAG", "page access flag fault", 0, FAULT_OTHER, false, NULL},
    {0x07, "PAGE_TRANSLATION", "page translation fault", 0, FAULT_MISSING, true, SIGNAL_MISSING},
    {0x08, "EXTERNAL_ABORT", "synchronous external abort", 0, FAULT_OTHER, false, "SIGBUS"},
    {0x09, "SECTION_DOMAIN", "section domain fault", 0, FAULT_OTHER, false, "SEGV_ACCERR"},
    {0x0b, "PAGE_DOMAIN", "page domain fault", 0, FAULT_OTHER, false, "SEGV_ACCERR"},
    {0x0c, "EXTERNAL_ABORT_ON_WALK_L1", "external abort on a table walk level 1", 0, FAULT_OTHER, false, "SIGBUS"},
    /* do_sect_fault() and no page fault: Linux gives processes no sections */
    {0x0d, "SECTION_PERMISSION", "section permission fault", 0, FAULT_PROTECTION, false, "SEGV_ACCERR"},
    {0x0e, "EXTERNAL_ABORT_ON_WALK_L2", "external abort on a table walk level 2", 0, FAULT_OTHER, false, "SIGBUS"},
    {0x0f, "PAGE_PERMISSION", "page permission fault", 0, FAULT_PROTECTION, true, SIGNAL_DENIED},
    {0x10, "TLB_CONFLICT", "TLB conflict", 0, FAULT_OTHER, false, "SIGBUS"},
    {0x14, "LOCKDOWN", "implementation defined fault (lockdown)", 0, FAULT_OTHER, false, "SIGBUS"},
    {0x16, "ASYNC_EXTERNAL_ABORT", "asynchronous external abort", 0, FAULT_OTHER, false, "BUS_OBJERR"},
    {0x18, "ASYNC_PARITY", "asynchronous parity error", 0, FAULT_OTHER, false, "SIGBUS"},
    {0x19, "PARITY", "synchronous parity error", 0, FAULT_OTHER, false, "SIGBUS"},
    {0x1c, "PARITY_ON_WALK_L1", "parity error on a table walk level 1", 0, FAULT_OTHER, false, "SIGBUS"},
    {0x1e, "PARITY_ON_WALK_L2", "parity error on a table walk level 2", 0, FAULT_OTHER, false, "SIGBUS"},
};

/* What differs from arm64: level 0 does not exist, level 1 has no pages, and nothing is killed by SIGKILL. */
static const char *signal_long(unsigned fs, bool page_fault)
{
	if (page_fault)
		return fs <= 0x07 ? SIGNAL_MISSING : SIGNAL_DENIED;
	return fs == 0x09 || fs == 0x0d ? "SEGV_ACCERR" : fs == 0x21 ? "BUS_ADRALN" : "SIGBUS";
}

static void decode_long(uint64_t fsr, uint32_t mode, uint32_t access, struct fault_code *ret)
{
	unsigned fs = (unsigned)fsr & 0x3f;
	const struct fsc_name *status = find_fsc(fs);
	uint32_t kind = fs >= 0x05 && fs <= 0x07   ? FAULT_MISSING
			: fs >= 0x0d && fs <= 0x0f ? FAULT_PROTECTION
						   : FAULT_OTHER;

	fault_code_class(ret, mode, access, kind);
	ret->is_page_fault = (fs >= 0x05 && fs <= 0x07) || fs == 0x0a || fs == 0x0b || fs == 0x0e || fs == 0x0f;
	add_fsc_name(ret, status, fs);
	add_fsc_words(ret, status, fs);
	ret->signal = signal_long(fs, ret->is_page_fault);
}

static void decode_short(uint64_t fsr, uint32_t mode, uint32_t access, struct fault_code *ret)
{
	unsigned fs = ((unsigned)fsr & 0xf) | ((unsigned)fsr >> 6 & 0x10);
	const struct fault_cause *cause = fault_cause_find(short_causes, ARRAY_SIZE(short_causes), fs);

	fault_code_cause(ret, mode, cause, "unknown fault status", fs);
	fault_code_class(ret, mode, access, cause ? cause->kind : FAULT_OTHER);
}

void fault_code_arm(const struct fault_raw *raw, struct fault_code *ret)
{
	uint64_t fsr = raw->code;
	uint32_t access = fsr & FSR_PREFETCH                     ? FAULT_EXEC
			  : (fsr & FSR_WRITE) && !(fsr & FSR_CM) ? FAULT_WRITE
								 : FAULT_READ;

	fault_code_words(ret, fsr & FSR_PREFETCH ? "prefetch abort" : "data abort");
	if (fsr & FSR_LONG)
		decode_long(fsr, raw->mode, access, ret);
	else
		decode_short(fsr, raw->mode, access, ret);
	fault_code_names(ret, fsr, of_fsr, ARRAY_SIZE(of_fsr));
	fault_code_bit_words(ret, fsr, of_fsr, ARRAY_SIZE(of_fsr));
}
