/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expected values are typed after the Intel SDM, the Arm ARM, the RISC-V privileged specification and Linux 6.12:
 * arch/x86/include/asm/trap_pf.h, arch/arm64/mm/fault.c, arch/arm/mm/fsr-*level.c, arch/riscv/kernel/traps.c,
 * arch/s390/mm/fault.c, arch/powerpc/include/asm/reg.h, arch/loongarch/include/asm/loongarch.h.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/cleanup.h"
#include "daemon/model/fault_code.h"

#define MAPERR "SEGV_MAPERR if nothing maps the address"
#define ACCERR "SEGV_ACCERR if the mapping forbids it"

static struct fault_code decode(enum fault_arch arch, uint32_t mode, uint64_t code)
{
	struct fault_raw raw = {.arch = arch, .mode = mode, .code = code};
	struct fault_code c;

	fault_code_decode(&raw, &c);
	return c;
}

static struct fault_code decode_two(enum fault_arch arch, uint64_t code, uint64_t more)
{
	struct fault_raw raw = {.arch = arch, .mode = FAULT_MODE_BY_CODE, .code = code, .has_more = true, .more = more};
	struct fault_code c;

	fault_code_decode(&raw, &c);
	return c;
}

static void assert_signal(const struct fault_code *c, const char *signal)
{
	if (signal)
		assert_string_equal(c->signal ? c->signal : "no signal", signal);
	else
		assert_null(c->signal);
}

/* `class` is "mode access kind". */
static void assert_code(const struct fault_code *c, uint64_t code, const char *class, bool is_page_fault,
			const char *details)
{
	char got[64];

	snprintf(got, sizeof(got), "%s %s %s", c->mode, c->access, c->kind);
	if (strcmp(got, class) || c->is_page_fault != is_page_fault || strcmp(c->details, details))
		fail_msg("0x%llx: %s, %s, %s; not %s, %s", (unsigned long long)code, got,
			 c->is_page_fault ? "page fault" : "no page fault", c->details, class, details);
}

/* ---- mode given, as by a tracepoint ---- */

struct meaning_case {
	uint32_t mode;
	uint64_t code;
	const char *access, *kind, *details;
};

static void check_meanings(enum fault_arch arch, const struct meaning_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *mode = cases[i].mode == FAULT_USER ? "user" : "kernel";
		struct fault_code c = decode(arch, cases[i].mode, cases[i].code);

		if (strcmp(c.mode, mode) || strcmp(c.access, cases[i].access) || strcmp(c.kind, cases[i].kind) ||
		    strcmp(c.details, cases[i].details))
			fail_msg("0x%llx: %s %s %s %s", (unsigned long long)cases[i].code, c.mode, c.access, c.kind,
				 c.details);
	}
}

/* Bits after the Intel SDM, vol. 3, "Page-fault exceptions"; names after the kernel's trap_pf.h. */
static void x86_codes(void **state)
{
	static const struct meaning_case cases[] = {
	    {FAULT_KERNEL, 0x0, "read", "missing", ""},
	    {FAULT_USER, 0x4, "read", "missing", "USER"},
	    {FAULT_USER, 0x6, "write", "missing", "WRITE|USER"},
	    {FAULT_USER, 0x7, "write", "protection", "PROT|WRITE|USER"},
	    {FAULT_KERNEL, 0x3, "write", "protection", "PROT|WRITE"},
	    {FAULT_USER, 0x15, "exec", "protection", "PROT|USER|INSTR"},
	    {FAULT_USER, 0x25, "read", "other", "PROT|USER|PK"},
	    {FAULT_USER, 0xd, "read", "other", "PROT|USER|RSVD"},
	    {FAULT_USER, 0x47, "write", "protection", "PROT|WRITE|USER|SHSTK"},
	    {FAULT_USER, 0x8007, "write", "other", "PROT|WRITE|USER|SGX"},
	    {FAULT_USER, 0x80000007, "write", "other", "PROT|WRITE|USER|RMP"},
	    {FAULT_USER, 0x86, "write", "missing", "WRITE|USER|0x80"},
	    {FAULT_KERNEL, 0x100000006, "write", "missing", "WRITE|USER|0x100000000"},
	    {FAULT_USER, UINT64_MAX, "exec", "other", "PROT|WRITE|USER|RSVD|INSTR|PK|SHSTK|SGX|RMP|0xffffffff7fff7f80"},
	};

	check_meanings(FAULT_ARCH_X86, cases, ARRAY_SIZE(cases));
}

/* ESR_EL1 values that real machines reported for known accesses, and others put together after the Arm ARM (DDI
 * 0487), D24.2.40. */
static void arm64_syndromes(void **state)
{
	static const struct meaning_case cases[] = {
	    {FAULT_USER, 0x82000007, "exec", "missing", "INSTRUCTION_ABORT|TRANSLATION_L3"},
	    {FAULT_USER, 0x82000006, "exec", "missing", "INSTRUCTION_ABORT|TRANSLATION_L2"},
	    {FAULT_USER, 0x92000007, "read", "missing", "DATA_ABORT|TRANSLATION_L3"},
	    {FAULT_USER, 0x92000006, "read", "missing", "DATA_ABORT|TRANSLATION_L2"},
	    {FAULT_USER, 0x92000047, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L3"},
	    {FAULT_USER, 0x92000045, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L1"},
	    {FAULT_USER, 0x9200004f, "write", "protection", "DATA_ABORT|WNR|PERMISSION_L3"},
	    {FAULT_KERNEL, 0x96000007, "read", "missing", "DATA_ABORT|TRANSLATION_L3"},
	    {FAULT_KERNEL, 0x96000047, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L3"},
	    {FAULT_KERNEL, 0x96000046, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L2"},
	    {FAULT_KERNEL, 0x96000044, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L0"},
	    /* cache maintenance sets WnR and writes nothing */
	    {FAULT_USER, 0x92000147, "read", "missing", "DATA_ABORT|WNR|CM|TRANSLATION_L3"},
	    /* WnR means nothing for an instruction abort */
	    {FAULT_USER, 0x8200004f, "exec", "protection", "INSTRUCTION_ABORT|PERMISSION_L3"},
	    {FAULT_USER, 0x9200000b, "read", "other", "DATA_ABORT|ACCESS_FLAG_L3"},
	    {FAULT_USER, 0x92000011, "read", "other", "DATA_ABORT|TAG_CHECK"},
	    {FAULT_USER, 0x92000021, "read", "other", "DATA_ABORT|ALIGNMENT"},
	    {FAULT_USER, 0x92000410, "read", "other", "DATA_ABORT|FNV|EXTERNAL_ABORT"},
	    {FAULT_USER, 0x9200006b, "write", "missing", "DATA_ABORT|WNR|TRANSLATION_L-1"},
	    {FAULT_USER, 0x92000029, "read", "other", "DATA_ABORT|ADDRESS_SIZE_L-1"},
	    {FAULT_USER, 0x9200003f, "read", "other", "DATA_ABORT|FSC_0x3f"},
	    /* a guarded control stack is written without WnR */
	    {FAULT_USER, 0x1009200000f, "write", "protection", "DATA_ABORT|GCS|PERMISSION_L3"},
	    {FAULT_USER, 0x409200004f, "write", "protection", "DATA_ABORT|WNR|OVERLAY|PERMISSION_L3"},
	    /* no abort at all */
	    {FAULT_USER, 0x56000000, "unknown", "unknown", "EC_0x15"},
	    {FAULT_USER, 0, "unknown", "unknown", "EC_0x00"},
	};

	check_meanings(FAULT_ARCH_ARM64, cases, ARRAY_SIZE(cases));
}

static void the_mode_is_asked_of_the_code_if_not_known(void **state)
{
	assert_string_equal(decode(FAULT_ARCH_X86, FAULT_MODE_BY_CODE, 4).mode, "user");
	assert_string_equal(decode(FAULT_ARCH_X86, 77, 4).mode, "user");
	assert_string_equal(decode(FAULT_ARCH_X86, 77, 3).mode, "kernel");
	/* an access of the processor's own while it runs a program */
	assert_string_equal(decode(FAULT_ARCH_X86, FAULT_USER, 3).mode, "user");
	assert_string_equal(decode(FAULT_ARCH_ARM64, FAULT_MODE_BY_CODE, 0x96000047).mode, "kernel");
	assert_string_equal(decode(FAULT_ARCH_ARM64, UINT32_MAX, 0x82000007).mode, "user");
}

static void an_unknown_architecture_tells_the_mode(void **state)
{
	struct fault_code c = decode(FAULT_ARCH_UNKNOWN, FAULT_KERNEL, 6);

	assert_code(&c, 6, "kernel unknown unknown", false, "");
	c = decode((enum fault_arch)4711, FAULT_USER, 6);
	assert_code(&c, 6, "user unknown unknown", false, "");
}

/* ---- x86 ---- */

static void x86_bits_alone_and_in_pairs(void **state)
{
	static const struct {
		uint64_t code;
		const char *class, *details;
	} cases[] = {
	    {0x0, "kernel read missing", ""},
	    {0x1, "kernel read protection", "PROT"},
	    {0x2, "kernel write missing", "WRITE"},
	    {0x4, "user read missing", "USER"},
	    {0x8, "kernel read other", "RSVD"},
	    {0x10, "kernel exec missing", "INSTR"},
	    {0x20, "kernel read other", "PK"},
	    {0x40, "kernel write missing", "SHSTK"},
	    {0x8000, "kernel read other", "SGX"},
	    {0x80000000, "kernel read other", "RMP"},
	    {0x3, "kernel write protection", "PROT|WRITE"},
	    {0x5, "user read protection", "PROT|USER"},
	    {0x9, "kernel read other", "PROT|RSVD"},
	    {0x11, "kernel exec protection", "PROT|INSTR"},
	    {0x21, "kernel read other", "PROT|PK"},
	    {0x41, "kernel write protection", "PROT|SHSTK"},
	    {0x8001, "kernel read other", "PROT|SGX"},
	    {0x80000001, "kernel read other", "PROT|RMP"},
	    {0x6, "user write missing", "WRITE|USER"},
	    {0xa, "kernel write other", "WRITE|RSVD"},
	    {0x12, "kernel exec missing", "WRITE|INSTR"},
	    {0x22, "kernel write other", "WRITE|PK"},
	    {0x42, "kernel write missing", "WRITE|SHSTK"},
	    {0x8002, "kernel write other", "WRITE|SGX"},
	    {0x80000002, "kernel write other", "WRITE|RMP"},
	    {0xc, "user read other", "USER|RSVD"},
	    {0x14, "user exec missing", "USER|INSTR"},
	    {0x24, "user read other", "USER|PK"},
	    {0x44, "user write missing", "USER|SHSTK"},
	    {0x8004, "user read other", "USER|SGX"},
	    {0x80000004, "user read other", "USER|RMP"},
	    {0x18, "kernel exec other", "RSVD|INSTR"},
	    {0x28, "kernel read other", "RSVD|PK"},
	    {0x48, "kernel write other", "RSVD|SHSTK"},
	    {0x8008, "kernel read other", "RSVD|SGX"},
	    {0x80000008, "kernel read other", "RSVD|RMP"},
	    {0x30, "kernel exec other", "INSTR|PK"},
	    {0x50, "kernel exec missing", "INSTR|SHSTK"},
	    {0x8010, "kernel exec other", "INSTR|SGX"},
	    {0x80000010, "kernel exec other", "INSTR|RMP"},
	    {0x60, "kernel write other", "PK|SHSTK"},
	    {0x8020, "kernel read other", "PK|SGX"},
	    {0x80000020, "kernel read other", "PK|RMP"},
	    {0x8040, "kernel write other", "SHSTK|SGX"},
	    {0x80000040, "kernel write other", "SHSTK|RMP"},
	    {0x80008000, "kernel read other", "SGX|RMP"},
	};

	assert_int_equal(ARRAY_SIZE(cases), 1 + 9 + 9 * 8 / 2);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fault_code c = decode(FAULT_ARCH_X86, FAULT_MODE_BY_CODE, cases[i].code);

		assert_code(&c, cases[i].code, cases[i].class, true, cases[i].details);
	}
}

/* Nobody knows them yet: they are told, and change nothing. */
static void unknown_bits_of_x86_are_told(void **state)
{
	for (unsigned bit = 7; bit < 64; bit++) {
		uint64_t code = UINT64_C(1) << bit;
		struct fault_code c;
		char details[32];

		if (bit == 15 || bit == 31)
			continue;
		snprintf(details, sizeof(details), "USER|0x%llx", (unsigned long long)code);
		c = decode(FAULT_ARCH_X86, FAULT_MODE_BY_CODE, code | 4);
		assert_code(&c, code, "user read missing", true, details);
	}
}

/* do_user_addr_fault() and access_error() of arch/x86/mm/fault.c */
static void signals_of_x86(void **state)
{
	static const struct {
		uint64_t code;
		const char *signal;
	} cases[] = {
	    {0x4, MAPERR},
	    {0x6, MAPERR},
	    {0x14, MAPERR},
	    {0x7, ACCERR ", SEGV_MAPERR at an address of the kernel"},
	    {0x15, ACCERR ", SEGV_MAPERR at an address of the kernel"},
	    {0x25, "SEGV_PKUERR"},
	    {0x8007, "SEGV_ACCERR"},
	    {0xd, "SIGKILL and an oops, the page table is corrupt"},
	    {0x2d, "SIGKILL and an oops, the page table is corrupt"},
	    {0x0, NULL},
	    {0x23, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fault_code c = decode(FAULT_ARCH_X86, FAULT_MODE_BY_CODE, cases[i].code);

		assert_signal(&c, cases[i].signal);
	}
}

static void words_of_x86(void **state)
{
	assert_string_equal(decode(FAULT_ARCH_X86, FAULT_MODE_BY_CODE, 0).meaning, "page not present");
	assert_string_equal(decode(FAULT_ARCH_X86, FAULT_MODE_BY_CODE, 0x6).meaning, "WRITE|USER, page not present");
	assert_string_equal(
	    decode(FAULT_ARCH_X86, FAULT_MODE_BY_CODE, 0x7d).meaning,
	    "PROT|USER|RSVD|INSTR|PK|SHSTK, page present and access denied, reserved bit set in a "
	    "page-table entry, instruction fetch, forbidden by a protection key, access to a shadow stack");
	assert_string_equal(decode(FAULT_ARCH_X86, FAULT_MODE_BY_CODE, 0x80008000).meaning,
			    "SGX|RMP, page not present, forbidden by SGX, against SEV-SNP's reverse map table");
}

/* ---- arm64 ---- */

/* Handlers and signals after fault_info[]: what it has for do_bad and do_sea with SIGKILL, kills; where the table says
 * unknown, the name is the Arm ARM's. */
static const struct {
	const char *kind;
	bool is_page_fault;
	const char *details, *words, *signal;
} status_codes[64] = {
    [0x00] = {"other", false, "ADDRESS_SIZE_L0", "address size fault level 0", "SIGKILL"},
    [0x01] = {"other", false, "ADDRESS_SIZE_L1", "address size fault level 1", "SIGKILL"},
    [0x02] = {"other", false, "ADDRESS_SIZE_L2", "address size fault level 2", "SIGKILL"},
    [0x03] = {"other", false, "ADDRESS_SIZE_L3", "address size fault level 3", "SIGKILL"},
    [0x04] = {"missing", true, "TRANSLATION_L0", "translation fault level 0", MAPERR},
    [0x05] = {"missing", true, "TRANSLATION_L1", "translation fault level 1", MAPERR},
    [0x06] = {"missing", true, "TRANSLATION_L2", "translation fault level 2", MAPERR},
    [0x07] = {"missing", true, "TRANSLATION_L3", "translation fault level 3", MAPERR},
    [0x08] = {"other", true, "ACCESS_FLAG_L0", "access flag fault level 0", ACCERR},
    [0x09] = {"other", true, "ACCESS_FLAG_L1", "access flag fault level 1", ACCERR},
    [0x0a] = {"other", true, "ACCESS_FLAG_L2", "access flag fault level 2", ACCERR},
    [0x0b] = {"other", true, "ACCESS_FLAG_L3", "access flag fault level 3", ACCERR},
    [0x0c] = {"protection", true, "PERMISSION_L0", "permission fault level 0", ACCERR},
    [0x0d] = {"protection", true, "PERMISSION_L1", "permission fault level 1", ACCERR},
    [0x0e] = {"protection", true, "PERMISSION_L2", "permission fault level 2", ACCERR},
    [0x0f] = {"protection", true, "PERMISSION_L3", "permission fault level 3", ACCERR},
    [0x10] = {"other", false, "EXTERNAL_ABORT", "synchronous external abort", "BUS_OBJERR"},
    [0x11] = {"other", false, "TAG_CHECK", "tag check fault", "SEGV_MTESERR"},
#define WALK " on a table walk level "
    [0x12] = {"other", false, "EXTERNAL_ABORT_ON_WALK_L-2", "synchronous external abort" WALK "-2", "SIGKILL"},
    [0x13] = {"other", false, "EXTERNAL_ABORT_ON_WALK_L-1", "synchronous external abort" WALK "-1", "SIGKILL"},
    [0x14] = {"other", false, "EXTERNAL_ABORT_ON_WALK_L0", "synchronous external abort" WALK "0", "SIGKILL"},
    [0x15] = {"other", false, "EXTERNAL_ABORT_ON_WALK_L1", "synchronous external abort" WALK "1", "SIGKILL"},
    [0x16] = {"other", false, "EXTERNAL_ABORT_ON_WALK_L2", "synchronous external abort" WALK "2", "SIGKILL"},
    [0x17] = {"other", false, "EXTERNAL_ABORT_ON_WALK_L3", "synchronous external abort" WALK "3", "SIGKILL"},
    [0x18] = {"other", false, "PARITY", "synchronous parity or ECC error", "BUS_OBJERR"},
    [0x19] = {"other", false, "FSC_0x19", "unknown fault status 0x19", "SIGKILL"},
    [0x1a] = {"other", false, "FSC_0x1a", "unknown fault status 0x1a", "SIGKILL"},
    [0x1b] = {"other", false, "PARITY_ON_WALK_L-1", "synchronous parity or ECC error" WALK "-1", "SIGKILL"},
    [0x1c] = {"other", false, "PARITY_ON_WALK_L0", "synchronous parity or ECC error" WALK "0", "SIGKILL"},
    [0x1d] = {"other", false, "PARITY_ON_WALK_L1", "synchronous parity or ECC error" WALK "1", "SIGKILL"},
    [0x1e] = {"other", false, "PARITY_ON_WALK_L2", "synchronous parity or ECC error" WALK "2", "SIGKILL"},
    [0x1f] = {"other", false, "PARITY_ON_WALK_L3", "synchronous parity or ECC error" WALK "3", "SIGKILL"},
    [0x20] = {"other", false, "FSC_0x20", "unknown fault status 0x20", "SIGKILL"},
    [0x21] = {"other", false, "ALIGNMENT", "alignment fault", "BUS_ADRALN"},
    [0x22] = {"other", false, "GRANULE_PROTECTION_ON_WALK_L-2", "granule protection fault" WALK "-2", "SIGKILL"},
    [0x23] = {"other", false, "GRANULE_PROTECTION_ON_WALK_L-1", "granule protection fault" WALK "-1", "SIGKILL"},
    [0x24] = {"other", false, "GRANULE_PROTECTION_ON_WALK_L0", "granule protection fault" WALK "0", "SIGKILL"},
    [0x25] = {"other", false, "GRANULE_PROTECTION_ON_WALK_L1", "granule protection fault" WALK "1", "SIGKILL"},
    [0x26] = {"other", false, "GRANULE_PROTECTION_ON_WALK_L2", "granule protection fault" WALK "2", "SIGKILL"},
    [0x27] = {"other", false, "GRANULE_PROTECTION_ON_WALK_L3", "granule protection fault" WALK "3", "SIGKILL"},
    [0x28] = {"other", false, "GRANULE_PROTECTION", "granule protection fault", "SIGKILL"},
    [0x29] = {"other", false, "ADDRESS_SIZE_L-1", "address size fault level -1", "SIGKILL"},
    [0x2a] = {"other", false, "TRANSLATION_L-2", "translation fault level -2", "SIGKILL"},
    [0x2b] = {"missing", true, "TRANSLATION_L-1", "translation fault level -1", MAPERR},
    [0x2c] = {"other", false, "ADDRESS_SIZE_L-2", "address size fault level -2", "SIGKILL"},
    [0x2d] = {"other", false, "FSC_0x2d", "unknown fault status 0x2d", "SIGKILL"},
    [0x2e] = {"other", false, "FSC_0x2e", "unknown fault status 0x2e", "SIGKILL"},
    [0x2f] = {"other", false, "FSC_0x2f", "unknown fault status 0x2f", "SIGKILL"},
    [0x30] = {"other", false, "TLB_CONFLICT", "TLB conflict", "SIGKILL"},
    [0x31] = {"other", false, "ATOMIC_UPDATE", "unsupported atomic hardware update", "SIGKILL"},
    [0x32] = {"other", false, "FSC_0x32", "unknown fault status 0x32", "SIGKILL"},
    [0x33] = {"other", false, "FSC_0x33", "unknown fault status 0x33", "SIGKILL"},
    [0x34] = {"other", false, "LOCKDOWN", "implementation defined fault (lockdown)", "SIGKILL"},
    [0x35] = {"other", false, "EXCLUSIVE_OR_ATOMIC", "unsupported exclusive or atomic access", "BUS_OBJERR"},
    [0x36] = {"other", false, "FSC_0x36", "unknown fault status 0x36", "SIGKILL"},
    [0x37] = {"other", false, "FSC_0x37", "unknown fault status 0x37", "SIGKILL"},
    [0x38] = {"other", false, "FSC_0x38", "unknown fault status 0x38", "SIGKILL"},
    [0x39] = {"other", false, "FSC_0x39", "unknown fault status 0x39", "SIGKILL"},
    [0x3a] = {"other", false, "FSC_0x3a", "unknown fault status 0x3a", "SIGKILL"},
    [0x3b] = {"other", false, "FSC_0x3b", "unknown fault status 0x3b", "SIGKILL"},
    [0x3c] = {"other", false, "FSC_0x3c", "unknown fault status 0x3c", "SIGKILL"},
    [0x3d] = {"other", false, "SECTION_DOMAIN", "section domain fault", "SIGKILL"},
    [0x3e] = {"other", false, "PAGE_DOMAIN", "page domain fault", "SIGKILL"},
    [0x3f] = {"other", false, "FSC_0x3f", "unknown fault status 0x3f", "SIGKILL"},
};

static void every_status_code_of_every_abort(void **state)
{
	static const struct {
		uint64_t esr; /* with status code 0 */
		const char *mode_access, *details, *words;
		bool user;
	} aborts[] = {
	    {0x82000000, "user exec", "INSTRUCTION_ABORT", "instruction abort from EL0", true},
	    {0x86000000, "kernel exec", "INSTRUCTION_ABORT", "instruction abort from EL1", false},
	    {0x92000000, "user read", "DATA_ABORT", "data abort from EL0", true},
	    {0x96000000, "kernel read", "DATA_ABORT", "data abort from EL1", false},
	};
	char class[64], details[128], words[256];

	for (size_t i = 0; i < ARRAY_SIZE(aborts); i++)
		for (uint64_t fsc = 0; fsc < 64; fsc++) {
			struct fault_code c = decode(FAULT_ARCH_ARM64, FAULT_MODE_BY_CODE, aborts[i].esr | fsc);

			snprintf(class, sizeof(class), "%s %s", aborts[i].mode_access, status_codes[fsc].kind);
			snprintf(details, sizeof(details), "%s|%s", aborts[i].details, status_codes[fsc].details);
			snprintf(words, sizeof(words), "%s, %s%s", aborts[i].words, status_codes[fsc].words,
				 status_codes[fsc].is_page_fault ? "" : ", not handled as a page fault");
			assert_code(&c, aborts[i].esr | fsc, class, status_codes[fsc].is_page_fault, details);
			assert_string_equal(c.meaning, words);
			assert_signal(&c, aborts[i].user ? status_codes[fsc].signal : NULL);
		}
}

/* Bit numbers after arch/arm64/include/asm/esr.h. */
static void every_bit_of_an_abort_is_named(void **state)
{
	static const struct {
		unsigned bit;
		const char *data, *instruction; /* NULL: means nothing there */
		const char *words;
	} cases[] = {
	    {6, "WNR", NULL, "WnR"},
	    {7, "S1PTW", "S1PTW", "S1PTW (stage 2, on a stage 1 table walk)"},
	    {8, "CM", NULL, "CM (cache maintenance)"},
	    {9, "EA", "EA", "EA (external abort type)"},
	    {10, "FNV", "FNV", "FnV (address not valid)"},
	    {13, "VNCR", NULL, "VNCR (nested virtualization)"},
	    {24, "ISV", NULL, "ISV (1-byte, register w0)"},
	    {32 + 5, "DIRTY", NULL, "DirtyBit (page not marked dirty)"},
	    {32 + 6, "OVERLAY", "OVERLAY", "Overlay (permission overlay)"},
	    {32 + 8, "GCS", NULL, "GCS (guarded control stack)"},
	    {32 + 9, "TAG_ACCESS", NULL, "TagAccess (of an allocation tag)"},
	    {32 + 10, "TND", NULL, "TnD (tagged memory not allowed)"},
	};
	char details[128], words[256];

	for (unsigned bit = 6, at = 0; bit < 64; bit++) {
		bool named = at < ARRAY_SIZE(cases) && cases[at].bit == bit;
		uint64_t set = UINT64_C(1) << bit;
		struct fault_code data, instruction;

		if (bit >= 25 && bit <= 31) /* IL and EC */
			continue;
		data = decode(FAULT_ARCH_ARM64, FAULT_MODE_BY_CODE, 0x92000007 | set);
		instruction = decode(FAULT_ARCH_ARM64, FAULT_MODE_BY_CODE, 0x82000007 | set);
		snprintf(details, sizeof(details), "DATA_ABORT|%s%sTRANSLATION_L3", named ? cases[at].data : "",
			 named ? "|" : "");
		assert_string_equal(data.details, details);
		snprintf(words, sizeof(words), "data abort from EL0, translation fault level 3%s%s", named ? ", " : "",
			 named ? cases[at].words : "");
		assert_string_equal(data.meaning, words);
		snprintf(details, sizeof(details), "INSTRUCTION_ABORT|%s%sTRANSLATION_L3",
			 named && cases[at].instruction ? cases[at].instruction : "",
			 named && cases[at].instruction ? "|" : "");
		assert_string_equal(instruction.details, details);
		assert_string_equal(instruction.access, "exec");
		at += named;
	}
}

static void what_a_hypervisor_emulates_is_told(void **state)
{
	/* ISV, SAS 3, SSE, SRT 30, SF, AR */
	assert_string_equal(decode(FAULT_ARCH_ARM64, FAULT_MODE_BY_CODE, 0x93fec007).meaning,
			    "data abort from EL0, translation fault level 3, ISV (8-byte, sign-extended, register x30, "
			    "acquire or release)");
	assert_string_equal(decode(FAULT_ARCH_ARM64, FAULT_MODE_BY_CODE, 0x93450047).meaning,
			    "data abort from EL0, translation fault level 3, WnR, ISV (2-byte, register w5)");
	/* without ISV the group means nothing */
	assert_string_equal(decode(FAULT_ARCH_ARM64, FAULT_MODE_BY_CODE, 0x92fec007).meaning,
			    "data abort from EL0, translation fault level 3");
}

static void external_aborts_tell_their_state(void **state)
{
	assert_non_null(strstr(decode(FAULT_ARCH_ARM64, FAULT_USER, 0x92001010).meaning, ", uncontainable"));
	assert_non_null(strstr(decode(FAULT_ARCH_ARM64, FAULT_USER, 0x92001810).meaning, ", restartable"));
	assert_null(strstr(decode(FAULT_ARCH_ARM64, FAULT_USER, 0x92001807).meaning, "restartable"));
}

static void what_is_no_abort_is_named(void **state)
{
	static const struct {
		uint64_t esr;
		const char *details, *words, *signal;
	} cases[] = {
	    {0x0, "EC_0x00", "exception class 0x00, unknown reason", NULL},
	    {0x36000000, "EC_0x0d", "exception class 0x0d, branch target exception", "ILL_ILLOPC"},
	    {0x56000047, "EC_0x15", "exception class 0x15, SVC of 64-bit code", NULL},
	    {0x8a000000, "EC_0x22", "exception class 0x22, PC alignment fault", "BUS_ADRALN"},
	    {0x8e000000, "EC_0x23", "exception class 0x23, unallocated", NULL},
	    {0x9a000000, "EC_0x26", "exception class 0x26, SP alignment fault", "BUS_ADRALN"},
	    {0xb6000000, "EC_0x2d", "exception class 0x2d, guarded control stack exception", "SEGV_CPERR"},
	    {0xbe000000, "EC_0x2f", "exception class 0x2f, SError", NULL},
	    {0xf2000000, "EC_0x3c", "exception class 0x3c, BRK of 64-bit code", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fault_code c = decode(FAULT_ARCH_ARM64, FAULT_MODE_BY_CODE, cases[i].esr);

		assert_code(&c, cases[i].esr, "unknown unknown unknown", false, cases[i].details);
		assert_string_equal(c.meaning, cases[i].words);
		assert_signal(&c, cases[i].signal);
	}
}

/* ---- the others ---- */

struct other_case {
	uint64_t code;
	const char *class;
	bool is_page_fault;
	const char *details, *signal;
};

static void check_others(enum fault_arch arch, const struct other_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct fault_code c = decode(arch, FAULT_MODE_BY_CODE, cases[i].code);

		assert_code(&c, cases[i].code, cases[i].class, cases[i].is_page_fault, cases[i].details);
		assert_signal(&c, cases[i].signal);
	}
}

static void riscv_causes(void **state)
{
	static const struct other_case cases[] = {
	    {0, "unknown exec other", false, "INST_MISALIGNED", "BUS_ADRALN"},
	    {1, "unknown exec other", false, "INST_ACCESS", "SEGV_ACCERR"},
	    {2, "unknown unknown unknown", false, "ILLEGAL", "ILL_ILLOPC"},
	    {3, "unknown unknown unknown", false, "BREAKPOINT", "TRAP_BRKPT"},
	    {4, "unknown read other", false, "LOAD_MISALIGNED", "BUS_ADRALN if not emulated"},
	    {5, "unknown read other", false, "LOAD_ACCESS", "SEGV_ACCERR"},
	    {6, "unknown write other", false, "STORE_MISALIGNED", "BUS_ADRALN if not emulated"},
	    {7, "unknown write other", false, "STORE_ACCESS", "SEGV_ACCERR"},
	    {8, "user unknown unknown", false, "ECALL_U", NULL},
	    {9, "unknown unknown unknown", false, "ECALL_S", NULL},
	    {10, "unknown unknown unknown", false, "ECALL_VS", NULL},
	    {11, "unknown unknown unknown", false, "ECALL_M", NULL},
	    {12, "unknown exec unknown", true, "INST_PAGE_FAULT", MAPERR ", " ACCERR},
	    {13, "unknown read unknown", true, "LOAD_PAGE_FAULT", MAPERR ", " ACCERR},
	    {14, "unknown unknown unknown", false, "0xe", NULL},
	    {15, "unknown write unknown", true, "STORE_PAGE_FAULT", MAPERR ", " ACCERR},
	    {16, "unknown unknown unknown", false, "0x10", NULL},
	    {18, "unknown unknown unknown", false, "SOFTWARE_CHECK", "SEGV_CPERR"},
	    {20, "unknown exec other", false, "INST_GUEST_PAGE_FAULT", NULL},
	    {21, "unknown read other", false, "LOAD_GUEST_PAGE_FAULT", NULL},
	    {22, "unknown unknown unknown", false, "VIRTUAL_INST", NULL},
	    {23, "unknown write other", false, "STORE_GUEST_PAGE_FAULT", NULL},
	    {24, "unknown unknown unknown", false, "0x18", NULL},
	    {0x800000000000000d, "unknown unknown unknown", false, "INTERRUPT", NULL},
	    {0x10000000d, "unknown unknown unknown", false, "0x10000000d", NULL},
	};

	check_others(FAULT_ARCH_RISCV, cases, ARRAY_SIZE(cases));
	assert_string_equal(decode(FAULT_ARCH_RISCV, FAULT_KERNEL, 13).mode, "kernel");
	assert_null(decode(FAULT_ARCH_RISCV, FAULT_KERNEL, 13).signal);
	assert_string_equal(decode(FAULT_ARCH_RISCV, FAULT_USER, 15).mode, "user");
	assert_string_equal(decode(FAULT_ARCH_RISCV, FAULT_USER, 0x8000000000000005).meaning, "interrupt 5");
}

static void loongarch_exceptions(void **state)
{
	static const struct other_case cases[] = {
	    {0, "unknown unknown unknown", false, "0x0", NULL},
	    {1, "unknown read missing", true, "TLBL", MAPERR},
	    {2, "unknown write missing", true, "TLBS", MAPERR},
	    {3, "unknown exec missing", true, "TLBI", MAPERR},
	    {4, "unknown write protection", true, "TLBM", ACCERR},
	    {5, "unknown read protection", true, "TLBNR", ACCERR},
	    {6, "unknown exec protection", true, "TLBNX", ACCERR},
	    {7, "unknown unknown protection", true, "TLBPE", ACCERR},
	    {8, "unknown unknown other", false, "ADE", "BUS_ADRERR"},
	    {9, "unknown unknown other", false, "ALE", "BUS_ADRALN if not emulated"},
	    {10, "unknown unknown other", false, "BCE", "SEGV_BNDERR"},
	    {11, "unknown unknown unknown", false, "SYS", NULL},
	    {63, "unknown unknown unknown", false, "0x3f", NULL},
	    {0x1800, "unknown unknown unknown", false, "0x0", NULL},           /* ESTAT: interrupts alone */
	    {0x00020000, "unknown write missing", true, "TLBS", MAPERR},       /* ESTAT */
	    {0x00021800, "unknown write missing", true, "TLBS", MAPERR},       /* with interrupts pending */
	    {0x00480000, "unknown unknown other", false, "ADE", "BUS_ADRERR"}, /* with a subcode */
	};

	check_others(FAULT_ARCH_LOONGARCH, cases, ARRAY_SIZE(cases));
}

static void s390_interruptions(void **state)
{
	static const struct other_case alone[] = {
	    {0x04, "unknown write protection", true, "PROTECTION", ACCERR},
	    {0x10, "unknown unknown missing", true, "SEGMENT", MAPERR},
	    {0x11, "unknown unknown missing", true, "PAGE", MAPERR},
	    {0x38, "unknown unknown missing", true, "ASCE_TYPE", MAPERR},
	    {0x39, "unknown unknown missing", true, "REGION_FIRST", MAPERR},
	    {0x3a, "unknown unknown missing", true, "REGION_SECOND", MAPERR},
	    {0x3b, "unknown unknown missing", true, "REGION_THIRD", MAPERR},
	    {0x05, "unknown unknown unknown", false, "0x5", NULL},
	    {0x00040011, "unknown unknown missing", true, "PAGE", MAPERR}, /* instruction length above */
	    {0x0291, "unknown unknown missing", true, "PAGE|PER|ABORTED", MAPERR},
	};
	static const struct {
		uint64_t code, teid;
		const char *class;
		bool is_page_fault;
		const char *details, *signal;
	} both[] = {
	    {0x11, 0x3fff7e00000, "unknown unknown missing", true, "PAGE", MAPERR},
	    {0x11, 0x3fff7e00400, "unknown write missing", true, "PAGE|STORE", MAPERR},
	    {0x11, 0x3fff7e00800, "unknown read missing", true, "PAGE|FETCH", MAPERR},
	    {0x11, 0x3fff7e00c00, "unknown unknown missing", true, "PAGE", MAPERR},
	    {0x3b, 0x402, "unknown write missing", true, "REGION_THIRD|STORE", MAPERR},
	    {0x04, 0x1000404, "unknown write protection", true, "PROTECTION", ACCERR},
	    {0x04, 0x1000084, "unknown exec protection", false, "PROTECTION|EXECUTION", "SEGV_ACCERR"},
	    {0x04, 0x400, "unknown write protection", false, "PROTECTION|LOW_ADDRESS", NULL},
	    {0x05, 0x400, "unknown unknown unknown", false, "0x5", NULL},
	};

	check_others(FAULT_ARCH_S390, alone, ARRAY_SIZE(alone));
	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		struct fault_code c = decode_two(FAULT_ARCH_S390, both[i].code, both[i].teid);

		assert_code(&c, both[i].teid, both[i].class, both[i].is_page_fault, both[i].details);
		assert_signal(&c, both[i].signal);
	}
	assert_string_equal(decode_two(FAULT_ARCH_S390, 0x10, 0x802).meaning,
			    "segment translation exception, fetch, secondary space");
}

static void powerpc_dsisr(void **state)
{
	static const struct other_case cases[] = {
	    {0x40000000, "unknown read missing", true, "NOHPTE", MAPERR},
	    {0x42000000, "unknown write missing", true, "NOHPTE|ISSTORE", MAPERR},
	    {0x08000000, "unknown read protection", true, "PROTFAULT", ACCERR},
	    {0x0a000000, "unknown write protection", true, "PROTFAULT|ISSTORE", ACCERR},
	    {0x10000000, "unknown exec protection", true, "NOEXEC_OR_G", ACCERR},
	    {0x00200000, "unknown read other", true, "KEYFAULT", "SEGV_PKUERR"},
	    {0x02200000, "unknown write other", true, "ISSTORE|KEYFAULT", "SEGV_PKUERR"},
	    {0x00040000, "unknown read other", true, "SET_RC", MAPERR ", " ACCERR},
	    {0x02000000, "unknown write unknown", true, "ISSTORE", MAPERR ", " ACCERR},
	    {0x00000000, "unknown read unknown", true, "", MAPERR ", " ACCERR},
	    {0x00400000, "unknown read other", false, "DABRMATCH", "TRAP_HWBKPT"},
	    /* DSISR_BAD_FAULT_64S */
	    {0x80000000, "unknown read other", false, "BAD_DIRECT_ST", "BUS_OBJERR"},
	    {0x20000000, "unknown read other", false, "ATTR_CONFLICT", "BUS_OBJERR"},
	    {0x04000000, "unknown read other", false, "BADACCESS", "BUS_OBJERR"},
	    {0x00100000, "unknown read other", false, "BAD_EXT_CTRL", "BUS_OBJERR"},
	    {0x00080000, "unknown read other", false, "UNSUPP_MMU", "BUS_OBJERR"},
	    {0x00020000, "unknown read other", false, "PRTABLE_FAULT", "BUS_OBJERR"},
	    {0x00004000, "unknown read other", false, "ICSWX_NO_CT", "BUS_OBJERR"},
	    {0x00000008, "unknown read other", false, "BAD_COPYPASTE", "BUS_OBJERR"},
	    {0x00000004, "unknown read other", false, "BAD_AMO", "BUS_OBJERR"},
	    {0x00000002, "unknown read other", false, "BAD_CI_LDST", "BUS_OBJERR"},
	    {0x140000001, "unknown read missing", true, "NOHPTE|0x100000001", MAPERR},
	};
	struct fault_code c;

	check_others(FAULT_ARCH_POWERPC, cases, ARRAY_SIZE(cases));
	c = decode_two(FAULT_ARCH_POWERPC, 0x40000000, 0x300);
	assert_code(&c, 0x300, "unknown read missing", true, "NOHPTE");
	/* SRR1, with the saved MSR in the bits between */
	c = decode_two(FAULT_ARCH_POWERPC, 0x800000004280f033, 0x400);
	assert_code(&c, 0x400, "unknown exec missing", true, "NOHPTE");
	c = decode_two(FAULT_ARCH_POWERPC, 0x08000000, 0x401);
	assert_code(&c, 0x401, "unknown exec protection", true, "PROTFAULT");
	c = decode_two(FAULT_ARCH_POWERPC, 0x40000000, 0x700);
	assert_code(&c, 0x700, "unknown unknown unknown", false, "TRAP_0x700");
	assert_null(c.signal);
}

static void arm_status_registers(void **state)
{
	static const struct other_case cases[] = {
	    /* short format */
	    {0x01, "unknown read other", false, "ALIGNMENT", "BUS_ADRALN"},
	    {0x05, "unknown read missing", true, "SECTION_TRANSLATION", MAPERR},
	    {0x07, "unknown read missing", true, "PAGE_TRANSLATION", MAPERR},
	    {0x08, "unknown read other", false, "EXTERNAL_ABORT", "SIGBUS"},
	    {0x09, "unknown read other", false, "SECTION_DOMAIN", "SEGV_ACCERR"},
	    {0x0b, "unknown read other", false, "PAGE_DOMAIN", "SEGV_ACCERR"},
	    {0x0d, "unknown read protection", false, "SECTION_PERMISSION", "SEGV_ACCERR"},
	    {0x0f, "unknown read protection", true, "PAGE_PERMISSION", ACCERR},
	    {0x805, "unknown write missing", true, "SECTION_TRANSLATION|WRITE", MAPERR},
	    {0x80f, "unknown write protection", true, "PAGE_PERMISSION|WRITE", ACCERR},
	    {0x817, "unknown write missing", true, "PAGE_TRANSLATION|WRITE", MAPERR}, /* a domain above the status */
	    {0x2807, "unknown read missing", true, "PAGE_TRANSLATION|WRITE|CM", MAPERR},
	    {0x406, "unknown read other", false, "ASYNC_EXTERNAL_ABORT", "BUS_OBJERR"},
	    {0x407, "unknown read other", false, "0x17", NULL},
	    {0x80000005, "unknown exec missing", true, "SECTION_TRANSLATION|PREFETCH", MAPERR},
	    {0x8000080f, "unknown exec protection", true, "PAGE_PERMISSION|PREFETCH|WRITE", ACCERR},
	    /* long format */
	    {0x204, "unknown read other", false, "TRANSLATION_L0|LPAE", "SIGBUS"},
	    {0x205, "unknown read missing", true, "TRANSLATION_L1|LPAE", MAPERR},
	    {0x206, "unknown read missing", true, "TRANSLATION_L2|LPAE", MAPERR},
	    {0xa07, "unknown write missing", true, "TRANSLATION_L3|LPAE|WRITE", MAPERR},
	    {0x208, "unknown read other", false, "ACCESS_FLAG_L0|LPAE", "SIGBUS"},
	    {0x209, "unknown read other", false, "ACCESS_FLAG_L1|LPAE", "SEGV_ACCERR"},
	    {0x20a, "unknown read other", true, "ACCESS_FLAG_L2|LPAE", ACCERR},
	    {0x20b, "unknown read other", true, "ACCESS_FLAG_L3|LPAE", ACCERR},
	    {0x20c, "unknown read other", false, "PERMISSION_L0|LPAE", "SIGBUS"},
	    {0x20d, "unknown read protection", false, "PERMISSION_L1|LPAE", "SEGV_ACCERR"},
	    {0x20e, "unknown read protection", true, "PERMISSION_L2|LPAE", ACCERR},
	    {0x8000020f, "unknown exec protection", true, "PERMISSION_L3|PREFETCH|LPAE", ACCERR},
	    {0x210, "unknown read other", false, "EXTERNAL_ABORT|LPAE", "SIGBUS"},
	    {0x221, "unknown read other", false, "ALIGNMENT|LPAE", "BUS_ADRALN"},
	    {0x23f, "unknown read other", false, "FSC_0x3f|LPAE", "SIGBUS"},
	};

	check_others(FAULT_ARCH_ARM, cases, ARRAY_SIZE(cases));
	assert_string_equal(decode(FAULT_ARCH_ARM, FAULT_USER, 0x80f).meaning,
			    "data abort, page permission fault, WRITE");
	assert_string_equal(decode(FAULT_ARCH_ARM, FAULT_USER, 0x80000205).meaning,
			    "prefetch abort, translation fault level 1");
}

/* ---- all of them ---- */

static void architectures_have_names(void **state)
{
	static const struct {
		const char *name;
		enum fault_arch arch;
	} cases[] = {
	    {"x86_64", FAULT_ARCH_X86},
	    {"arm64", FAULT_ARCH_ARM64},
	    {"riscv64", FAULT_ARCH_RISCV},
	    {"s390x", FAULT_ARCH_S390},
	    {"powerpc", FAULT_ARCH_POWERPC},
	    {"arm", FAULT_ARCH_ARM},
	    {"loongarch64", FAULT_ARCH_LOONGARCH},
	};
	char all[128] = "";

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(fault_arch_by_name(cases[i].name), cases[i].arch);
		assert_string_equal(fault_arch_name(cases[i].arch), cases[i].name);
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", cases[i].name);
	}
	assert_string_equal(all, FAULT_ARCH_NAMES);
	assert_int_equal(fault_arch_by_name("aarch64"), FAULT_ARCH_ARM64);
	assert_int_equal(fault_arch_by_name("ppc64le"), FAULT_ARCH_POWERPC);
	assert_int_equal(fault_arch_by_name(""), FAULT_ARCH_UNKNOWN);
	assert_int_equal(fault_arch_by_name("x86"), FAULT_ARCH_UNKNOWN);
	assert_string_equal(fault_arch_name(FAULT_ARCH_UNKNOWN), "unknown");
	assert_string_equal(fault_arch_name((enum fault_arch)4711), "unknown");
#if defined(__x86_64__)
	assert_int_equal(fault_arch_here(), FAULT_ARCH_X86);
#elif defined(__aarch64__)
	assert_int_equal(fault_arch_here(), FAULT_ARCH_ARM64);
#endif
}

static bool one_of(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(word, *words) == 0)
			return true;
	return false;
}

/* Fits, is of one line, and goes into JSON as it is. */
static bool is_plain(const char *text, size_t size)
{
	if (strnlen(text, size) >= size - 1)
		return false;
	for (; *text; text++)
		if (!isprint((unsigned char)*text) || *text == '"' || *text == '\\')
			return false;
	return true;
}

static void check_any(const struct fault_raw *raw)
{
	static const char *const modes[] = {"user", "kernel", "unknown", NULL};
	static const char *const accesses[] = {"read", "write", "exec", "unknown", NULL};
	static const char *const kinds[] = {"missing", "protection", "other", "unknown", NULL};
	struct fault_code c;

	memset(&c, 0xff, sizeof(c));
	fault_code_decode(raw, &c);
	if (!one_of(c.mode, modes) || !one_of(c.access, accesses) || !one_of(c.kind, kinds) ||
	    !is_plain(c.details, sizeof(c.details)) || !is_plain(c.meaning, sizeof(c.meaning)) || !*c.meaning ||
	    (c.signal && !is_plain(c.signal, 200)) || (raw->mode < FAULT_MODES && strcmp(c.mode, modes[raw->mode])))
		fail_msg("arch %d, mode %u, 0x%llx:0x%llx: %s %s %s, %s, %s", (int)raw->arch, raw->mode,
			 (unsigned long long)raw->code, (unsigned long long)raw->more, c.mode, c.access, c.kind,
			 c.details, c.meaning);
}

static uint64_t random_number(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void any_code_is_good(void **state)
{
	uint64_t seed = 0x9e3779b97f4a7c15;

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t dice = random_number(&seed);
		struct fault_raw raw = {
		    .arch = (enum fault_arch)(dice % (FAULT_ARCH_UNKNOWN + 2)),
		    .mode = (uint32_t)(dice >> 8) % 4,
		    .code = random_number(&seed),
		    .has_more = dice >> 16 & 1,
		    .more = random_number(&seed),
		};

		/* Small ones and few bits are the common ones. */
		if (dice >> 20 & 1)
			raw.code >>= dice >> 24 & 63;
		if (dice >> 21 & 1)
			raw.code &= random_number(&seed);
		if (dice >> 22 & 1)
			raw.more &= 0xfff;
		check_any(&raw);
	}
}

/* All bits set is the longest text, and on arm64 once more for each class and status. */
static void the_longest_text_fits(void **state)
{
	for (unsigned arch = 0; arch <= FAULT_ARCH_UNKNOWN; arch++)
		for (uint64_t low = 0; low < 256; low++)
			check_any(
			    &(struct fault_raw){.arch = arch, .mode = FAULT_MODE_BY_CODE, .code = ~low, .more = ~low});
	for (uint64_t ec = 0; ec < 64; ec++)
		for (uint64_t fsc = 0; fsc < 64; fsc++)
			check_any(&(struct fault_raw){
			    .arch = FAULT_ARCH_ARM64,
			    .mode = FAULT_MODE_BY_CODE,
			    .code = (UINT64_MAX & ~(UINT64_C(0x3f) << 26 | 0x3f)) | ec << 26 | fsc,
			});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(x86_codes),
	    cmocka_unit_test(arm64_syndromes),
	    cmocka_unit_test(the_mode_is_asked_of_the_code_if_not_known),
	    cmocka_unit_test(an_unknown_architecture_tells_the_mode),
	    cmocka_unit_test(x86_bits_alone_and_in_pairs),
	    cmocka_unit_test(unknown_bits_of_x86_are_told),
	    cmocka_unit_test(signals_of_x86),
	    cmocka_unit_test(words_of_x86),
	    cmocka_unit_test(every_status_code_of_every_abort),
	    cmocka_unit_test(every_bit_of_an_abort_is_named),
	    cmocka_unit_test(what_a_hypervisor_emulates_is_told),
	    cmocka_unit_test(external_aborts_tell_their_state),
	    cmocka_unit_test(what_is_no_abort_is_named),
	    cmocka_unit_test(riscv_causes),
	    cmocka_unit_test(loongarch_exceptions),
	    cmocka_unit_test(s390_interruptions),
	    cmocka_unit_test(powerpc_dsisr),
	    cmocka_unit_test(arm_status_registers),
	    cmocka_unit_test(architectures_have_names),
	    cmocka_unit_test(any_code_is_good),
	    cmocka_unit_test(the_longest_text_fits),
	};
	return cmocka_run_group_tests_name("fault-code", tests, NULL, NULL);
}
