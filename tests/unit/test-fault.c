/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/fault_class.h"
#include "daemon/model/fault.h"

static void assert_class(uint32_t class, const char *mode, const char *access, const char *kind)
{
	struct fault_class names = fault_class_names(class);

	assert_string_equal(names.mode, mode);
	assert_string_equal(names.access, access);
	assert_string_equal(names.kind, kind);
}

/* Error codes seen on real kernels for known accesses; bits after the Intel SDM, vol. 3, "Page-fault exceptions". */
static void x86_codes_decode_to_their_class(void **state)
{
	static const struct {
		uint32_t mode;
		uint64_t code;
		const char *access, *kind;
	} cases[] = {
	    {FAULT_USER, 0x4, "read", "missing"},       /* read of a fresh page */
	    {FAULT_USER, 0x6, "write", "missing"},      /* write to a fresh page */
	    {FAULT_USER, 0x7, "write", "protection"},   /* copy on write */
	    {FAULT_USER, 0x5, "read", "protection"},    /* kernel address from user mode */
	    {FAULT_USER, 0x14, "exec", "missing"},      /* first jump into a page */
	    {FAULT_USER, 0x15, "exec", "protection"},   /* jump into a page that is not executable */
	    {FAULT_KERNEL, 0x0, "read", "missing"},     /* copy from user */
	    {FAULT_KERNEL, 0x2, "write", "missing"},    /* copy to user */
	    {FAULT_KERNEL, 0x3, "write", "protection"}, /* copy to user, copy on write */
	    {FAULT_USER, 0x25, "read", "other"},        /* protection key */
	    {FAULT_USER, 0x27, "write", "other"},       /* protection key */
	    {FAULT_USER, 0xd, "read", "other"},         /* reserved bit */
	    {FAULT_USER, 0x44, "write", "missing"},     /* shadow stack, page not there */
	    {FAULT_USER, 0x47, "write", "protection"},  /* shadow stack */
	    {FAULT_USER, 0x8007, "write", "other"},     /* SGX */
	    {FAULT_USER, 0x80000007, "write", "other"}, /* SEV-SNP RMP */
	    {FAULT_USER, 0x86, "write", "missing"},     /* an unknown bit 7 changes nothing */
	    {FAULT_KERNEL, 0x6, "write", "missing"}, /* USER bit set by an implicit access: the mode is an argument */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_class(fault_class_x86(cases[i].mode, cases[i].code),
			     cases[i].mode == FAULT_USER ? "user" : "kernel", cases[i].access, cases[i].kind);
}

/* ESR values seen on arm64 hosts, and others made after arch/arm64/include/asm/esr.h and the Arm ARM's table of fault status
 * codes. */
static void arm64_codes_decode_to_their_class(void **state)
{
	static const struct {
		uint32_t mode;
		uint64_t esr;
		const char *access, *kind;
	} cases[] = {
	    {FAULT_USER, 0x82000007, "exec", "missing"},     /* seen: first jump into a page */
	    {FAULT_USER, 0x82000006, "exec", "missing"},     /* the same, level 2 */
	    {FAULT_USER, 0x92000007, "read", "missing"},     /* seen */
	    {FAULT_USER, 0x92000006, "read", "missing"},     /* seen */
	    {FAULT_USER, 0x92000047, "write", "missing"},    /* seen */
	    {FAULT_USER, 0x92000045, "write", "missing"},    /* seen */
	    {FAULT_USER, 0x9200004f, "write", "protection"}, /* seen: copy on write */
	    {FAULT_KERNEL, 0x96000007, "read", "missing"},   /* seen */
	    {FAULT_KERNEL, 0x96000047, "write", "missing"},  /* seen */
	    {FAULT_KERNEL, 0x96000046, "write", "missing"},  /* seen */
	    {FAULT_KERNEL, 0x96000044, "write", "missing"},  /* seen: fresh mm at exec */
	    {FAULT_KERNEL, 0x86000004, "exec", "missing"},   /* EC 21 */
	    {FAULT_USER, 0x92000004, "read", "missing"},     /* first and last of the translation levels */
	    {FAULT_USER, 0x9200002b, "read", "missing"},     /* translation, level -1 */
	    {FAULT_USER, 0x9200000c, "read", "protection"},  /* permission, level 0 */
	    {FAULT_USER, 0x8200000f, "exec", "protection"},  /* a page that is not executable */
	    {FAULT_USER, 0x92000003, "read", "other"},       /* address size, level 3 */
	    {FAULT_USER, 0x92000008, "read", "other"},       /* access flag, level 0 */
	    {FAULT_USER, 0x9200004b, "write", "other"},      /* access flag, level 3 */
	    {FAULT_USER, 0x92000010, "read", "other"},       /* external abort */
	    {FAULT_USER, 0x92000051, "write", "other"},      /* tag check */
	    {FAULT_USER, 0x92000014, "read", "other"},       /* external abort on a walk: no translation fault */
	    {FAULT_USER, 0x92000021, "read", "other"},       /* alignment */
	    {FAULT_USER, 0x9200002a, "read", "other"},       /* level -2 */
	    {FAULT_USER, 0x92000147, "read", "missing"},     /* CM and WnR: cache maintenance */
	    {FAULT_USER, 0x92000107, "read", "missing"},     /* CM alone */
	    {FAULT_USER, 0x82000047, "exec", "missing"},     /* WnR means nothing for an instruction */
	    {FAULT_USER, 0x10092000007, "write", "missing"}, /* ISS2.GCS: guarded control stack */
	    {FAULT_USER, 0x3292000007, "read", "missing"},   /* other bits of ISS2 change nothing */
	    {FAULT_USER, 0x8a000000, "read", "other"},       /* EC 22: PC alignment is no abort */
	    {FAULT_USER, 0x9a000047, "read", "other"},       /* EC 26: SP alignment is no abort */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_class(fault_class_arm64(cases[i].mode, cases[i].esr),
			     cases[i].mode == FAULT_USER ? "user" : "kernel", cases[i].access, cases[i].kind);
}

static void only_aborts_of_arm64_have_a_status(void **state)
{
	for (uint64_t ec = 0; ec < 64; ec++)
		assert_int_equal(fault_is_arm64_abort(ec << 26 | 0x2000047),
				 ec == 0x20 || ec == 0x21 || ec == 0x24 || ec == 0x25);
}

/* A letter per fault status code, after fault_info[] of arch/arm64/mm/fault.c (6.12): m is do_translation_fault, a an
 * access flag and p a permission fault, both do_page_fault; a dot is any other handler. */
static const char fsc_handlers[] = "....mmmmaaaapppp" /* 00-0f */
				   "................" /* 10-1f */
				   "...........m...." /* 20-2f */
				   "................";

static void every_status_code_of_arm64_has_its_kind(void **state)
{
	static const struct {
		uint64_t esr; /* with status code 0 */
		uint32_t mode;
		const char *access;
	} aborts[] = {
	    {0x82000000, FAULT_USER, "exec"},       {0x86000000, FAULT_KERNEL, "exec"},
	    {0x92000000, FAULT_USER, "read"},       {0x96000000, FAULT_KERNEL, "read"},
	    {0x92000040, FAULT_USER, "write"},      {0x96000040, FAULT_KERNEL, "write"},
	    {0x92000140, FAULT_USER, "read"},       {0x96000140, FAULT_KERNEL, "read"},
	    {0x82000040, FAULT_USER, "exec"},       {0x86000140, FAULT_KERNEL, "exec"},
	    {0x10082000000, FAULT_USER, "exec"},    {0x10092000000, FAULT_USER, "write"},
	    {0x10096000140, FAULT_KERNEL, "write"},
	};

	assert_int_equal(strlen(fsc_handlers), 64);
	for (size_t i = 0; i < sizeof(aborts) / sizeof(aborts[0]); i++)
		for (uint64_t fsc = 0; fsc < 64; fsc++) {
			char handler = fsc_handlers[fsc];

			assert_class(fault_class_arm64(aborts[i].mode, aborts[i].esr | fsc),
				     aborts[i].mode == FAULT_USER ? "user" : "kernel", aborts[i].access,
				     handler == 'm'   ? "missing"
				     : handler == 'p' ? "protection"
						      : "other");
			assert_int_equal(fault_is_arm64_page_fault(aborts[i].esr | fsc), handler != '.');
		}
}

/* do_mem_abort() is called for aborts alone, and the tracepoint of a future kernel may bring anything. */
static void what_is_no_abort_is_no_page_fault(void **state)
{
	for (uint64_t ec = 0; ec < 64; ec++) {
		if (ec == 0x20 || ec == 0x21 || ec == 0x24 || ec == 0x25)
			continue;
		for (uint64_t fsc = 0; fsc < 64; fsc++) {
			uint64_t esr = ec << 26 | 0x10002000040 | fsc;

			assert_int_equal(fault_is_arm64_page_fault(esr), 0);
			assert_int_equal(fault_is_arm64_page_fault_at(0xcafe0000, esr), 0);
			assert_class(fault_class_arm64(FAULT_USER, esr), "user", "read", "other");
		}
	}
}

/* do_translation_fault() lets only addresses of the user's half through to do_page_fault(); the other codes do not ask
 * for the address. */
static void translation_faults_in_the_kernels_half_are_no_page_faults(void **state)
{
	static const struct {
		uint64_t far, esr;
		uint32_t counts;
	} cases[] = {
	    {0xcafe0000, 0x92000047, 1},         {0x0000ffffffffffff, 0x92000004, 1},
	    {0x0b00aaaac0de0000, 0x92000047, 1}, /* a tag in the byte above */
	    {0xff7fffffffffffff, 0x92000047, 1}, {0xffff800080000000, 0x92000004, 0},
	    {0xffff800080000000, 0x96000047, 0}, {0x00ff800080000000, 0x92000004, 0}, /* the kernel's half with a tag */
	    {0xffff800080000000, 0x9200002b, 0}, {0xcafe0000, 0x9200002b, 1},
	    {0xffff800080000000, 0x9200000d, 1},                                      /* permission */
	    {0xffff800080000000, 0x9200000f, 1}, {0xffff800080000000, 0x92000008, 1}, /* access flag */
	    {0xcafe0000, 0x92000010, 0},         {0xffff800080000000, 0x92000021, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (fault_is_arm64_page_fault_at(cases[i].far, cases[i].esr) != cases[i].counts)
			fail_msg("0x%llx at 0x%llx", (unsigned long long)cases[i].esr,
				 (unsigned long long)cases[i].far);
}

static void every_class_has_its_own_names(void **state)
{
	struct fault_class a, b;

	for (uint32_t i = 0; i < FAULT_CLASSES_ALL; i++)
		for (uint32_t j = 0; j < i; j++) {
			a = fault_class_names(i);
			b = fault_class_names(j);
			assert_false(a.mode == b.mode && a.access == b.access && a.kind == b.kind);
		}
}

static void unclassed_sources_say_unknown(void **state)
{
	assert_class(FAULT_CLASS_MODE_ONLY(FAULT_USER), "user", "unknown", "unknown");
	assert_class(FAULT_CLASS_MODE_ONLY(FAULT_KERNEL), "kernel", "unknown", "unknown");
	assert_class(FAULT_CLASS_UNKNOWN, "unknown", "unknown", "unknown");
	assert_class(4711, "unknown", "unknown", "unknown");
}

static void sums_take_only_the_classes_in_the_set(void **state)
{
	uint64_t faults[FAULT_CLASSES_ALL];

	for (uint32_t i = 0; i < FAULT_CLASSES_ALL; i++)
		faults[i] = UINT64_C(1) << i;
	assert_int_equal(fault_sum(faults, FAULT_CLASS_SET_ALL), (1 << FAULT_CLASSES_ALL) - 1);
	assert_int_equal(fault_sum(faults, 1u << 3 | 1u << FAULT_CLASS_UNKNOWN), 8 | 1 << FAULT_CLASS_UNKNOWN);
	assert_int_equal(fault_sum(faults, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(x86_codes_decode_to_their_class),
	    cmocka_unit_test(arm64_codes_decode_to_their_class),
	    cmocka_unit_test(only_aborts_of_arm64_have_a_status),
	    cmocka_unit_test(every_status_code_of_arm64_has_its_kind),
	    cmocka_unit_test(what_is_no_abort_is_no_page_fault),
	    cmocka_unit_test(translation_faults_in_the_kernels_half_are_no_page_faults),
	    cmocka_unit_test(every_class_has_its_own_names),
	    cmocka_unit_test(unclassed_sources_say_unknown),
	    cmocka_unit_test(sums_take_only_the_classes_in_the_set),
	};

	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
