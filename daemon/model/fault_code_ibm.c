/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes of s390 and powerpc, which come in two words each.
 */
#include <inttypes.h>

#include "daemon/base/cleanup.h"
#include "daemon/model/fault_code_parts.h"

/* ---- s390: arch/s390/mm/fault.c and include/asm/fault.h ---- */

#define PGM_CODE(code) ((code)&0x7f)
#define PGM_PER 0x80
#define PGM_ABORTED 0x200
#define PGM_PROTECTION 0x04

/* The manual counts bits from the left: 63 is the lowest. */
#define TEID_FSI(teid) ((unsigned)((teid) >> 10) & 3) /* bits 52 and 53 */
#define TEID_STORE 1
#define TEID_FETCH 2
#define TEID_B56 (UINT64_C(1) << 7) /* instruction execution protection */
#define TEID_B61 (UINT64_C(1) << 2) /* clear: low-address protection */
#define TEID_SPACE(teid) ((unsigned)(teid)&3)

static const struct fault_cause s390_causes[] = {
    /* Reading is not forbidden to processes, so that Linux takes this for a write. */
    {PGM_PROTECTION, "PROTECTION", "protection exception", FAULT_WRITE, FAULT_PROTECTION, true, SIGNAL_DENIED},
    {0x10, "SEGMENT", "segment translation exception", ACCESS_UNKNOWN, FAULT_MISSING, true, SIGNAL_MISSING},
    {0x11, "PAGE", "page translation exception", ACCESS_UNKNOWN, FAULT_MISSING, true, SIGNAL_MISSING},
    {0x38, "ASCE_TYPE", "ASCE type exception", ACCESS_UNKNOWN, FAULT_MISSING, true, SIGNAL_MISSING},
    {0x39, "REGION_FIRST", "region first translation exception", ACCESS_UNKNOWN, FAULT_MISSING, true, SIGNAL_MISSING},
    {0x3a, "REGION_SECOND", "region second translation exception", ACCESS_UNKNOWN, FAULT_MISSING, true, SIGNAL_MISSING},
    {0x3b, "REGION_THIRD", "region third translation exception", ACCESS_UNKNOWN, FAULT_MISSING, true, SIGNAL_MISSING},
};

/* Returns the access. */
static uint32_t s390_protection(uint64_t teid, struct fault_code *ret)
{
	if (!(teid & TEID_B61)) {
		fault_code_detail(ret, "LOW_ADDRESS");
		fault_code_words(ret, "low-address protection");
		ret->is_page_fault = false;
		ret->signal = NULL; /* only the kernel can do that */
		return FAULT_WRITE;
	}
	if (!(teid & TEID_B56))
		return FAULT_WRITE;
	fault_code_detail(ret, "EXECUTION");
	fault_code_words(ret, "instruction execution protection");
	ret->is_page_fault = false;
	ret->signal = "SEGV_ACCERR";
	return FAULT_EXEC;
}

static uint32_t s390_access(uint64_t teid, struct fault_code *ret)
{
	if (TEID_FSI(teid) == TEID_STORE) {
		fault_code_detail(ret, "STORE");
		fault_code_words(ret, "store");
		return FAULT_WRITE;
	}
	if (TEID_FSI(teid) != TEID_FETCH)
		return ACCESS_UNKNOWN;
	fault_code_detail(ret, "FETCH");
	fault_code_words(ret, "fetch");
	return FAULT_READ;
}

static void s390_teid(const struct fault_raw *raw, const struct fault_cause *cause, struct fault_code *ret)
{
	static const char *const spaces[4] = {"primary", "access-register", "secondary", "home"};
	bool protection = cause->code == PGM_PROTECTION;
	uint32_t access = protection ? s390_protection(raw->more, ret) : s390_access(raw->more, ret);

	fault_code_class(ret, raw->mode, access, cause->kind);
	fault_code_words(ret, "%s space", spaces[TEID_SPACE(raw->more)]);
}

void fault_code_s390(const struct fault_raw *raw, struct fault_code *ret)
{
	uint64_t code = PGM_CODE(raw->code);
	const struct fault_cause *cause = fault_cause_find(s390_causes, ARRAY_SIZE(s390_causes), code);

	fault_code_cause(ret, raw->mode, cause, "program interruption", code);
	if (cause && raw->has_more)
		s390_teid(raw, cause, ret);
	if (raw->code & PGM_PER) {
		fault_code_detail(ret, "PER");
		fault_code_words(ret, "with a PER event");
	}
	if (raw->code & PGM_ABORTED) {
		fault_code_detail(ret, "ABORTED");
		fault_code_words(ret, "transaction aborted");
	}
}

/* ---- powerpc: arch/powerpc/include/asm/reg.h and mm/fault.c ---- */

#define DSISR_NOHPTE 0x40000000u
#define DSISR_NOEXEC_OR_G 0x10000000u
#define DSISR_PROTFAULT 0x08000000u
#define DSISR_ISSTORE 0x02000000u
#define DSISR_DABRMATCH 0x00400000u
#define DSISR_KEYFAULT 0x00200000u
#define DSISR_SET_RC 0x00040000u
/* SIGBUS at once: direct store, attributes, cache-inhibited or guarded, external control, unsupported MMU set-up,
 * process table, coprocessor type, copy and paste, atomic, cache-inhibited load or store */
#define DSISR_BAD                                                                                                 \
	(0x80000000u | 0x20000000u | 0x04000000u | 0x00100000u | 0x00080000u | 0x00020000u | 0x00004000u | 0x8u | \
	 0x4u | 0x2u)
/* SRR1 says the same of an instruction in these bits, and other things in the others. */
#define SRR1_BITS \
	(DSISR_NOHPTE | DSISR_NOEXEC_OR_G | DSISR_PROTFAULT | DSISR_KEYFAULT | 0x00080000u | DSISR_SET_RC | 0x00020000u)

#define TRAP_DATA_STORAGE 0x300
#define TRAP_INSTRUCTION_STORAGE 0x400

static const struct fault_bit dsisr_bits[] = {
    {0x80000000, "BAD_DIRECT_ST", "direct store"},
    {DSISR_NOHPTE, "NOHPTE", "no translation found"},
    {0x20000000, "ATTR_CONFLICT", "attributes in conflict"},
    {DSISR_NOEXEC_OR_G, "NOEXEC_OR_G", "page not executable, or guarded"},
    {DSISR_PROTFAULT, "PROTFAULT", "access denied"},
    {0x04000000, "BADACCESS", "access not allowed to such memory"},
    {DSISR_ISSTORE, "ISSTORE", NULL},
    {DSISR_DABRMATCH, "DABRMATCH", "data breakpoint"},
    {DSISR_KEYFAULT, "KEYFAULT", "forbidden by a storage key"},
    {0x00100000, "BAD_EXT_CTRL", "external control"},
    {0x00080000, "UNSUPP_MMU", "unsupported MMU configuration"},
    {DSISR_SET_RC, "SET_RC", "reference or change bit could not be set"},
    {0x00020000, "PRTABLE_FAULT", "fault on the process table"},
    {0x00004000, "ICSWX_NO_CT", "coprocessor type not available"},
    {0x00000008, "BAD_COPYPASTE", "copy or paste on such memory"},
    {0x00000004, "BAD_AMO", "bad atomic operation"},
    {0x00000002, "BAD_CI_LDST", "bad cache-inhibited load or store"},
};

static uint32_t dsisr_kind(uint64_t code)
{
	if (code & (DSISR_BAD | DSISR_DABRMATCH | DSISR_KEYFAULT))
		return FAULT_OTHER;
	if (code & (DSISR_PROTFAULT | DSISR_NOEXEC_OR_G))
		return FAULT_PROTECTION;
	if (code & DSISR_NOHPTE)
		return FAULT_MISSING;
	return code & DSISR_SET_RC ? FAULT_OTHER : KIND_UNKNOWN;
}

static const char *dsisr_signal(uint64_t code, uint32_t kind)
{
	if (code & DSISR_DABRMATCH)
		return "TRAP_HWBKPT";
	if (code & DSISR_BAD)
		return "BUS_OBJERR";
	if (code & DSISR_KEYFAULT)
		return "SEGV_PKUERR";
	return kind == FAULT_MISSING ? SIGNAL_MISSING : kind == FAULT_PROTECTION ? SIGNAL_DENIED : SIGNAL_EITHER;
}

void fault_code_powerpc(const struct fault_raw *raw, struct fault_code *ret)
{
	/* Flags in the lowest bits of the saved trap number are Linux's. */
	uint64_t trap = raw->has_more ? raw->more & ~UINT64_C(0xf) : TRAP_DATA_STORAGE;
	bool exec = trap == TRAP_INSTRUCTION_STORAGE;
	uint64_t code = exec ? raw->code & SRR1_BITS : raw->code, rest;
	uint32_t kind = dsisr_kind(code), access;

	if (trap != TRAP_DATA_STORAGE && !exec) {
		fault_code_class(ret, raw->mode, ACCESS_UNKNOWN, KIND_UNKNOWN);
		fault_code_detail(ret, "TRAP_0x%" PRIx64, trap);
		fault_code_words(ret, "trap 0x%" PRIx64 " is no storage interrupt", trap);
		return;
	}
	/* Of a data access this bit is always clear, so it must have been SRR1. */
	access = exec || (code & DSISR_NOEXEC_OR_G) ? FAULT_EXEC : code & DSISR_ISSTORE ? FAULT_WRITE : FAULT_READ;
	fault_code_class(ret, raw->mode, access, kind);
	ret->is_page_fault = !(code & (DSISR_BAD | DSISR_DABRMATCH));
	rest = fault_code_names(ret, code, dsisr_bits, ARRAY_SIZE(dsisr_bits));
	if (rest)
		fault_code_detail(ret, "0x%" PRIx64, rest);
	fault_code_words(ret, "%s", *ret->details ? ret->details : "no bit set");
	fault_code_bit_words(ret, code, dsisr_bits, ARRAY_SIZE(dsisr_bits));
	ret->signal = dsisr_signal(code, kind);
}
