/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/utf8.h"
#include "tests/unit/crash-fixture.h"

DEFINE_CLEANUP(history_local, struct crash_history *, crash_history_free)
DEFINE_CLEANUP(limit_local, struct crash_limit *, crash_limit_free)

/* ---- records ---- */

static void a_record_becomes_a_crash(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = NULL;

	e.flags |= CRASH_COLLAPSED;
	e.sender_tgid = 5;
	c = crash_of(&e);
	assert_int_equal(c->number, 0);
	assert_int_equal(c->time_unix_ns, CRASH_TIME_NS);
	assert_int_equal(c->cgroup_id, 99);
	assert_string_equal(c->identity->unit, "myapp.service");
	assert_int_equal(c->pid, 4711);
	assert_int_equal(c->tid, 4712);
	assert_int_equal(c->pid_inside, 7);
	assert_int_equal(c->tid_inside, 8);
	assert_int_equal(c->uid, 1000);
	assert_int_equal(c->sender_pid, 5);
	assert_string_equal(c->comm, "myapp");
	assert_string_equal(c->exe, "/usr/bin/myapp");
	assert_int_equal(c->class, SEGV(1));
	assert_int_equal(c->signal, 11);
	assert_int_equal(c->code, 1);
	assert_true(c->collapsed);
	assert_true(c->has_address);
	assert_int_equal(c->address, 0x1234);
	assert_int_equal(c->ip, 0x401000);
	assert_int_equal(c->sp, 0x7ffc00001000);
	assert_true(c->has_error_code);
	assert_int_equal(c->error_code, 6);
	assert_int_equal(c->access, FAULT_WRITE);
	assert_int_equal(c->kind, FAULT_MISSING);
	assert_int_equal(c->core, CRASH_CORE_UNKNOWN);
	assert_int_equal(c->suppressed, 0);
	assert_null(crash_free(NULL));
}

static void access_is_decoded_as_the_architecture_has_it(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *none = NULL, *gp = NULL, *arm = NULL, *bti = NULL;

	e.trap = 0;
	e.error_code = 0x8200000f; /* arm64: exec of a page that is not executable */
	arm = crash_of_arm64(&e);
	assert_true(arm->has_error_code);
	assert_int_equal(arm->access, FAULT_EXEC);
	assert_int_equal(arm->kind, FAULT_PROTECTION);
	e.error_code = 0x36000000; /* EC 0d, branch target: no access */
	bti = crash_of_arm64(&e);
	assert_false(bti->has_error_code);
	e.trap = 13; /* a general protection fault is no page fault */
	e.error_code = 6;
	gp = crash_of(&e);
	assert_false(gp->has_error_code);
	e.trap = 14;
	e.flags &= ~CRASH_HAS_ERROR_CODE;
	none = crash_of(&e);
	assert_false(none->has_error_code);
}

static void strings_become_valid_utf8_and_end(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = NULL, *cut = NULL, *cut_at_slash = NULL, *nothing = NULL;

	memset(e.comm, 'x', sizeof(e.comm)); /* no NUL */
	memset(e.exe, 0xff, sizeof(e.exe));
	c = crash_of(&e);
	assert_string_equal(c->comm, "xxxxxxxxxxxxxxxx");
	assert_int_equal(strlen(c->exe), 3 * CRASH_EXE_BYTES);
	assert_true(utf8_valid(c->exe, strlen(c->exe)));

	strcpy(e.exe, "deep/down/prog");
	e.flags |= CRASH_EXE_CUT;
	cut = crash_of(&e);
	assert_string_equal(cut->exe, ".../deep/down/prog");
	strcpy(e.exe, "/down/prog");
	cut_at_slash = crash_of(&e);
	assert_string_equal(cut_at_slash->exe, ".../down/prog");
	e.exe[0] = '\0';
	nothing = crash_of(&e);
	assert_string_equal(nothing->exe, "");
}

static void any_bytes_give_a_valid_crash(void **state)
{
	for (unsigned fill = 0; fill < 256; fill++) {
		struct crash_event e;
		auto_crash *x86 = NULL, *arm = NULL;

		memset(&e, (int)fill, sizeof(e));
		x86 = crash_of(&e);
		arm = crash_of_arm64(&e);
		assert_true(x86->n_frames <= CRASH_FRAMES && arm->n_frames <= CRASH_FRAMES);
		assert_true(x86->where < CRASH_ADDRESSES && arm->where < CRASH_ADDRESSES);
		assert_true(x86->access < FAULT_ACCESSES && arm->access < FAULT_ACCESSES);
		assert_true(x86->kind < FAULT_KINDS && arm->kind < FAULT_KINDS);
		assert_true(utf8_valid(x86->comm, strlen(x86->comm)) && utf8_valid(x86->exe, strlen(x86->exe)));
	}
}

/* ---- where the address lies ---- */

/* Fields that are 0 are as in a page fault of x86 with no address near sp. */
struct place {
	enum crash_address where;
	uint32_t class;
	uint64_t address;
	uint64_t error_code; /* 0: a write to a missing page */
	uint64_t sp;
	uint64_t trap;
	const char *instruction;
	uint32_t flags;
	bool no_error_code;
};

static struct crash_event event_at(const struct place *p, uint64_t error_code, uint64_t trap)
{
	struct crash_event e = crash_event_make();

	e.class = p->class;
	e.address = p->address;
	e.error_code = p->error_code ? p->error_code : error_code;
	e.trap = p->trap ? p->trap : trap;
	e.sp = p->sp ? p->sp : 0x7ffc00000000;
	e.flags = CRASH_HAS_ADDRESS | (p->no_error_code ? 0 : CRASH_HAS_ERROR_CODE) | p->flags;
	if (p->instruction) {
		memset(e.instruction, 0x90, sizeof(e.instruction));
		memcpy(e.instruction, p->instruction, strlen(p->instruction));
		e.flags |= CRASH_HAS_INSTRUCTION;
	}
	return e;
}

static void check_place(const struct crash *c, const struct place *p, size_t i)
{
	if (c->where != p->where)
		fail_msg("case %zu, address %#lx: %s, not %s", i, (unsigned long)p->address,
			 crash_address_name(c->where), crash_address_name(p->where));
}

#define SP UINT64_C(0x7f0000100000)

static void places_of_x86(void **state)
{
	static const struct place places[] = {
	    {CRASH_ADDRESS_NULL_PAGE, SEGV(1), 0},
	    {CRASH_ADDRESS_NULL_PAGE, SEGV(1), 0xffff},
	    {CRASH_ADDRESS_NULL_PAGE, SEGV(2), 0x10},
	    {CRASH_ADDRESS_NULL_PAGE, SEGV(1), 0x100, .sp = 0x200}, /* a lost stack pointer is no full stack */
	    {CRASH_ADDRESS_UNMAPPED, SEGV(1), 0x10000},
	    {CRASH_ADDRESS_MAPPED, SEGV(2), 0x10000, 7},
	    {CRASH_ADDRESS_KERNEL_HALF, SEGV(1), 0xffff800000000000, 5},
	    {CRASH_ADDRESS_KERNEL_HALF, SEGV(1), 0xffffffffff600000, 5}, /* vsyscall */
	    {CRASH_ADDRESS_KERNEL_HALF, SEGV(2), 0xffffffffffffffff, .sp = 8},
	    {CRASH_ADDRESS_STACK_GUARD, SEGV(1), SP - 8, .sp = SP},
	    {CRASH_ADDRESS_STACK_GUARD, SEGV(2), SP - 8, .sp = SP},
	    {CRASH_ADDRESS_STACK_GUARD, SEGV(1), SP, .sp = SP},
	    {CRASH_ADDRESS_STACK_GUARD, SEGV(1), SP + 0xff8, .sp = SP},
	    {CRASH_ADDRESS_STACK_GUARD, SEGV(1), SP - 0x10000, .sp = SP},
	    {CRASH_ADDRESS_STACK_GUARD, SEGV(1), SP - 8, .sp = SP, .no_error_code = true},
	    {CRASH_ADDRESS_UNMAPPED, SEGV(1), SP - 0x10001, .sp = SP},
	    {CRASH_ADDRESS_UNMAPPED, SEGV(1), SP + 0x1000, .sp = SP},
	    {CRASH_ADDRESS_MAPPED, SEGV(2), SP - 8, 0x15, .sp = SP}, /* a jump onto the stack */
	    {CRASH_ADDRESS_UNMAPPED, SEGV(1), 0x401000, .sp = 0x401008, .no_error_code = true}, /* the same: at ip */
	    {CRASH_ADDRESS_MAPPED, SEGV(4), SP, 0x27, .sp = SP},                                /* protection key */
	    {CRASH_ADDRESS_MAPPED, BUS(2), 0x7f0000000000},                        /* past the file's end */
	    {CRASH_ADDRESS_MAPPED, BUS(4), 0x7f0000000000, .no_error_code = true}, /* memory failure */
	    {CRASH_ADDRESS_NONE, BUS(1), 0, .trap = 17},                           /* alignment check */
	    {CRASH_ADDRESS_NONE, SEGV(3), 0x12345678},
	    {CRASH_ADDRESS_NONE, SEGV(10), 0x12345678},
	    {CRASH_ADDRESS_NONE, SEGV(BAD_CODE_SENT(BAD_CODES_SEGV)), 0x10},
	    {CRASH_ADDRESS_NONE, BUS(BAD_CODE_SENT(BAD_CODES_BUS)), 0x7f0000000000},
	    {CRASH_ADDRESS_NONE, SEGV(BAD_CODE_KERNEL(BAD_CODES_SEGV)), 0x10},
	    {CRASH_ADDRESS_NONE, BAD_BASE_ILL + 1, 0x401000},
	    {CRASH_ADDRESS_NONE, BAD_BASE_FPE + 1, 0x401000},
	    {CRASH_ADDRESS_NONE, 4711, 0x401000},
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct crash_event e = event_at(&places[i], 6, 14);
		auto_crash *c = crash_of(&e);

		check_place(c, &places[i], i);
	}
}

static void only_a_signal_that_has_an_address_has_one(void **state)
{
	static const struct {
		uint32_t class, flags;
		bool has;
	} cases[] = {
	    {SEGV(1), CRASH_HAS_ADDRESS, true},
	    {SEGV(1), 0, false},
	    {SEGV(BAD_CODE_OTHER), CRASH_HAS_ADDRESS, true},
	    {SEGV(BAD_CODE_SENT(BAD_CODES_SEGV)), CRASH_HAS_ADDRESS, false},
	    {SEGV(BAD_CODE_KERNEL(BAD_CODES_SEGV)), CRASH_HAS_ADDRESS, false},
	    {BUS(1), CRASH_HAS_ADDRESS, false}, /* x86 gives 0 */
	    {BUS(2), CRASH_HAS_ADDRESS, true},
	    {BAD_BASE_ILL + 2, CRASH_HAS_ADDRESS, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct crash_event e = crash_event_make();
		auto_crash *c = NULL;

		e.class = cases[i].class;
		e.flags = cases[i].flags;
		c = crash_of(&e);
		assert_int_equal(c->has_address, cases[i].has);
		assert_int_equal(c->address, cases[i].has ? 0x1234 : 0);
	}
}

/* Bytes by GNU as. */
static void general_protection_faults_of_x86(void **state)
{
	static const struct {
		enum crash_address where;
		const char *instruction; /* NULL: not known */
		uint64_t error_code;
		uint64_t trap;
	} cases[] = {
	    {CRASH_ADDRESS_NON_CANONICAL, "\x8b\x07"},                         /* mov (%rdi),%eax */
	    {CRASH_ADDRESS_NON_CANONICAL, "\x48\x89\x07"},                     /* mov %rax,(%rdi) */
	    {CRASH_ADDRESS_NON_CANONICAL, "\x66\x41\x0f\x6f\x04\x24"},         /* movdqa (%r12),%xmm0 */
	    {CRASH_ADDRESS_NON_CANONICAL, "\x0f\x28\x07"},                     /* movaps (%rdi),%xmm0 */
	    {CRASH_ADDRESS_NON_CANONICAL, "\x0f\xb6\x07"},                     /* movzbl (%rdi),%eax */
	    {CRASH_ADDRESS_NON_CANONICAL, "\xff\xe0"},                         /* jmp *%rax */
	    {CRASH_ADDRESS_NON_CANONICAL, "\xc3"},                             /* ret */
	    {CRASH_ADDRESS_NON_CANONICAL, "\x66\x66\x66\x66\x66\x66\x66\x66"}, /* nothing but prefixes */
	    {CRASH_ADDRESS_NON_CANONICAL, NULL},
	    {CRASH_ADDRESS_NONE, "\xf4"},                 /* hlt */
	    {CRASH_ADDRESS_NONE, "\xfa"},                 /* cli */
	    {CRASH_ADDRESS_NONE, "\xfb"},                 /* sti */
	    {CRASH_ADDRESS_NONE, "\xe4\x60"},             /* in $0x60,%al */
	    {CRASH_ADDRESS_NONE, "\xe7\x60"},             /* out %eax,$0x60 */
	    {CRASH_ADDRESS_NONE, "\xec"},                 /* in (%dx),%al */
	    {CRASH_ADDRESS_NONE, "\x66\xef"},             /* out %ax,(%dx) */
	    {CRASH_ADDRESS_NONE, "\xf3\x6c"},             /* rep insb */
	    {CRASH_ADDRESS_NONE, "\x0f\x01\x38"},         /* invlpg (%rax) */
	    {CRASH_ADDRESS_NONE, "\x0f\x06"},             /* clts */
	    {CRASH_ADDRESS_NONE, "\x0f\x09"},             /* wbinvd */
	    {CRASH_ADDRESS_NONE, "\x0f\x20\xc0"},         /* mov %cr0,%rax */
	    {CRASH_ADDRESS_NONE, "\x41\x0f\x22\xc0"},     /* mov %r8,%cr0 */
	    {CRASH_ADDRESS_NONE, "\x0f\x23\xf8"},         /* mov %rax,%db7 */
	    {CRASH_ADDRESS_NONE, "\x0f\x30"},             /* wrmsr */
	    {CRASH_ADDRESS_NONE, "\x0f\x32"},             /* rdmsr */
	    {CRASH_ADDRESS_NONE, "\x0f\x29\x44\x24\x08"}, /* movaps %xmm0,8(%rsp) */
	    {CRASH_ADDRESS_NONE, "\x66\x0f\x7f\x45\xf8"}, /* movdqa %xmm0,-8(%rbp) */
	    {CRASH_ADDRESS_NONE, "\xc5\xf8\x29\x04\x24"}, /* vmovaps %xmm0,(%rsp) */
	    {CRASH_ADDRESS_NONE, "\xcd\x80", 0x402},      /* int $0x80 where it is not allowed: a selector */
	    {CRASH_ADDRESS_NONE, "\x8b\x07", 0, 14},      /* no general protection fault */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct place p = {.class = SEGV(BAD_CODE_KERNEL(BAD_CODES_SEGV)),
					.where = cases[i].where,
					.instruction = cases[i].instruction,
					.trap = cases[i].trap};
		struct crash_event e = event_at(&p, cases[i].error_code, 13);
		auto_crash *c = NULL;

		e.flags &= ~CRASH_HAS_ADDRESS;
		c = crash_of(&e);
		check_place(c, &p, i);
		assert_false(c->has_address);
	}
}

static void other_faults_without_an_address(void **state)
{
	static const struct {
		enum crash_address where;
		struct place p;
		bool arm;
	} cases[] = {
	    /* stack segment: a non-canonical stack pointer */
	    {CRASH_ADDRESS_NON_CANONICAL, {.class = BUS(BAD_CODE_KERNEL(BAD_CODES_BUS)), .trap = 12}},
	    {CRASH_ADDRESS_NONE, {.class = BUS(BAD_CODE_KERNEL(BAD_CODES_BUS)), .trap = 18}}, /* machine check */
	    {CRASH_ADDRESS_NONE, {.class = SEGV(BAD_CODE_KERNEL(BAD_CODES_SEGV)), .no_error_code = true, .trap = 13}},
	    {CRASH_ADDRESS_NONE, {.class = SEGV(BAD_CODE_SENT(BAD_CODES_SEGV)), .trap = 13}},
	    {CRASH_ADDRESS_NONE, {.class = SEGV(BAD_CODE_KERNEL(BAD_CODES_SEGV)), .trap = 13}, .arm = true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct place p = cases[i].p;
		struct crash_event e = event_at(&p, 0, 0);
		auto_crash *c = NULL;

		p.where = cases[i].where;
		e.flags &= ~CRASH_HAS_ADDRESS;
		c = cases[i].arm ? crash_of_arm64(&e) : crash_of(&e);
		check_place(c, &p, i);
	}
}

static void places_of_arm64_are_told_without_the_tag(void **state)
{
	static const struct place places[] = {
	    {CRASH_ADDRESS_NULL_PAGE, SEGV(1), 0x10},
	    {CRASH_ADDRESS_NULL_PAGE, SEGV(1), 0xab00000000000010}, /* tagged */
	    {CRASH_ADDRESS_UNMAPPED, SEGV(1), 0xff00ffff00000000},  /* tag ff of a user address */
	    {CRASH_ADDRESS_STACK_GUARD, SEGV(1), 0x5a00fffff0000000, .sp = 0xfffff0000010},
	    {CRASH_ADDRESS_KERNEL_HALF, SEGV(1), 0xffff000012345678},
	    {CRASH_ADDRESS_KERNEL_HALF, SEGV(1), 0x00ff000012345678}, /* bit 55 decides */
	    {CRASH_ADDRESS_NON_CANONICAL, SEGV(1), 0x0010000000000000},
	    {CRASH_ADDRESS_UNMAPPED, SEGV(1), 0x000fffffffff0000}, /* 52 bits */
	    {CRASH_ADDRESS_MAPPED, SEGV(2), 0xffff00000000, 0x9200004f},
	    {CRASH_ADDRESS_MAPPED, SEGV(9), 0x0b00ffff00000000, 0x92000051}, /* tag mismatch */
	    {CRASH_ADDRESS_MAPPED, BUS(1), 0xffff00000001, 0x92000021},      /* alignment: here it is known */
	    {CRASH_ADDRESS_NONE, SEGV(8), 0},                                /* told late */
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct crash_event e = event_at(&places[i], 0x92000047, 0);
		auto_crash *c = crash_of_arm64(&e);

		check_place(c, &places[i], i);
		assert_int_equal(c->address, places[i].address); /* as the kernel gave it */
	}
}

/* ---- frames ---- */

static void frames_are_files_the_program_or_nothing(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = NULL;

	e.n_frames = 6;
	e.frames[2] = (struct crash_event_frame){.kind = CRASH_FRAME_NONE, .offset = e.code_end};
	e.frames[3] = (struct crash_event_frame){.kind = CRASH_FRAME_NONE, .offset = e.code_begin};
	e.frames[4] = (struct crash_event_frame){.kind = CRASH_FRAME_BUILD_ID, .offset = 0x400010}; /* no id at all */
	e.frames[5] = (struct crash_event_frame){.kind = 77, .offset = 0x400010};
	c = crash_of(&e);
	assert_int_equal(c->n_frames, 6);
	assert_int_equal(c->frames[0].in, CRASH_IN_BUILD_ID);
	assert_string_equal(c->frames[0].build_id, "dead000000000000000000000000000000000001");
	assert_int_equal(c->frames[0].offset, 0x1000);
	assert_int_equal(c->frames[1].in, CRASH_IN_PROGRAM);
	assert_int_equal(c->frames[1].offset, 0x123);
	assert_string_equal(c->frames[1].build_id, "");
	assert_int_equal(c->frames[2].in, CRASH_IN_NOTHING);
	assert_int_equal(c->frames[2].offset, 0); /* an address is not kept */
	assert_int_equal(c->frames[3].in, CRASH_IN_PROGRAM);
	assert_int_equal(c->frames[3].offset, 0);
	assert_int_equal(c->frames[4].in, CRASH_IN_NOTHING);
	assert_int_equal(c->frames[4].offset, 0);
	assert_int_equal(c->frames[5].in, CRASH_IN_NOTHING);
}

static void short_build_ids_have_their_own_length(void **state)
{
	struct crash_event e = crash_event_make();
	auto_crash *c = NULL;

	e.n_frames = 3;
	e.frames[0] = (struct crash_event_frame){.kind = CRASH_FRAME_BUILD_ID, .build_id = {[7] = 0x5a}};
	e.frames[1] = (struct crash_event_frame){.kind = CRASH_FRAME_BUILD_ID, .build_id = {1, [14] = 2}};
	e.frames[2] = (struct crash_event_frame){.kind = CRASH_FRAME_BUILD_ID, .build_id = {1, [16] = 2}};
	c = crash_of(&e);
	assert_string_equal(c->frames[0].build_id, "000000000000005a");
	assert_string_equal(c->frames[1].build_id, "01000000000000000000000000000200");
	assert_string_equal(c->frames[2].build_id, "0100000000000000000000000000000002000000");
}

static void the_number_of_frames_is_bounded(void **state)
{
	static const uint32_t counts[] = {0, 1, CRASH_FRAMES, CRASH_FRAMES + 1, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		struct crash_event e = crash_event_make();
		auto_crash *c = NULL;

		e.n_frames = counts[i];
		c = crash_of(&e);
		assert_int_equal(c->n_frames, counts[i] < CRASH_FRAMES ? counts[i] : CRASH_FRAMES);
	}
}

/* ---- fingerprint ---- */

static uint64_t fingerprint(const struct crash_event *e)
{
	auto_crash *c = crash_of(e);

	return c->fingerprint;
}

static void shift(struct crash_event *e, uint64_t by)
{
	e->code_begin += by;
	e->code_end += by;
	e->ip += by;
	e->sp += 2 * by;
	for (uint32_t i = 0; i < e->n_frames; i++)
		if (e->frames[i].kind == CRASH_FRAME_NONE)
			e->frames[i].offset += by;
}

/* What a run does not share with the next does not count. */
static void a_fingerprint_survives_another_run(void **state)
{
	struct crash_event e = crash_event_make(), other;
	uint64_t first;

	e.n_frames = 3;
	e.frames[2] = (struct crash_event_frame){.kind = CRASH_FRAME_NONE, .offset = 0x7f0000000000};
	first = fingerprint(&e);
	other = e;
	shift(&other, 0x55550000000);
	other.head.tgid = other.head.tid = other.tgid_inside = 1;
	other.uid = 0;
	other.address += 8;
	other.error_code = 4;
	strcpy(other.comm, "thread-7");
	assert_int_equal(fingerprint(&other), first);
}

static struct crash_event four_frames(void)
{
	struct crash_event e = crash_event_make();

	e.n_frames = 6;
	for (uint32_t i = 0; i < e.n_frames; i++)
		e.frames[i] =
		    (struct crash_event_frame){.kind = CRASH_FRAME_BUILD_ID, .build_id = {1, 2, [19] = 3}, .offset = i};
	return e;
}

static void frames_that_come_at_the_end_are_as_good(void **state)
{
	struct crash_event whole = four_frames(), bare = four_frames();
	struct crash_exit_event none = {0}, end = {
						.n_frames = whole.n_frames,
						.code_begin = whole.code_begin,
						.code_end = whole.code_end,
					    };
	auto_crash *c = NULL;

	for (uint32_t i = 0; i < bare.n_frames; i++)
		bare.frames[i] = (struct crash_event_frame){.kind = CRASH_FRAME_NONE, .offset = 0x7f0000001000 + i};
	memcpy(end.frames, whole.frames, sizeof(end.frames));
	c = crash_of(&bare);
	assert_int_not_equal(c->fingerprint, fingerprint(&whole));
	crash_set_frames(c, &none);
	assert_int_equal(c->fingerprint, fingerprint(&bare));
	assert_int_equal(c->n_frames, bare.n_frames);
	crash_set_frames(c, &end);
	assert_int_equal(c->fingerprint, fingerprint(&whole));
	assert_string_not_equal(c->frames[0].build_id, "");
	end.n_frames = UINT32_MAX;
	crash_set_frames(c, &end);
	assert_int_equal(c->n_frames, CRASH_FRAMES);
}

/* Changes `e` and checks whether the fingerprint changed with it. */
#define CHANGE(e, change, changes)                                    \
	do {                                                          \
		uint64_t before_ = fingerprint(e);                    \
		change;                                               \
		assert_int_equal(fingerprint(e) != before_, changes); \
	} while (0)

static void a_fingerprint_tells_places_apart(void **state)
{
	struct crash_event e = four_frames();

	CHANGE(&e, e.frames[4].offset++, false); /* the fifth */
	CHANGE(&e, e.n_frames = 4, false);
	CHANGE(&e, strcpy(e.exe, "/opt/myapp"), false); /* the build ids tell the program */
	CHANGE(&e, e.class = SEGV(2), true);
	CHANGE(&e, e.class = BUS(2), true);
	CHANGE(&e, e.frames[0].offset++, true);
	CHANGE(&e, e.frames[0].build_id[0]++, true);
	CHANGE(&e, e.frames[3].offset++, true);
	CHANGE(&e, e.n_frames = 3, true);
}

static void the_first_frame_in_nothing_ends_a_fingerprint(void **state)
{
	struct crash_event e = four_frames();

	CHANGE(&e, e.frames[2].kind = CRASH_FRAME_NONE, true);
	CHANGE(&e, e.frames[3].offset++, false);
	CHANGE(&e, e.n_frames = 2, false);
}

static void leading_frames_in_nothing_are_skipped_but_counted(void **state)
{
	struct crash_event e = four_frames();

	CHANGE(&e, e.frames[0].kind = CRASH_FRAME_NONE, true);
	CHANGE(&e, e.frames[0].offset = 0x7777777777, false);
	CHANGE(&e, e.frames[4].offset++, true); /* the fourth that is in a file */
	CHANGE(&e, e.frames[5].offset++, false);
	for (uint32_t i = 1; i < e.n_frames; i++)
		CHANGE(&e, e.frames[i].kind = CRASH_FRAME_NONE, true);
}

static void without_a_build_id_the_program_s_path_tells_it_apart(void **state)
{
	struct crash_event e = crash_event_make();

	CHANGE(&e, e.frames[0] = e.frames[1], true);
	CHANGE(&e, strcpy(e.exe, "/usr/bin/other"), true);
	CHANGE(&e, e.n_frames = 0, true);
	CHANGE(&e, strcpy(e.exe, "/usr/bin/myapp"), true);
}

/* It is compared over a fleet: no version, no architecture may change it. Values by another implementation of
 * FNV-1a. */
static void a_fingerprint_is_the_same_everywhere(void **state)
{
	struct crash_event e = four_frames();

	assert_int_equal(fingerprint(&e), UINT64_C(0x143d97dbe5b0ae9c));
	e = crash_event_make();
	assert_int_equal(fingerprint(&e), UINT64_C(0x6f3989bd622b3750));
}

/* ---- history ---- */

static struct crash *any_crash(void)
{
	struct crash_event e = crash_event_make();

	return crash_of(&e);
}

static void assert_numbers(const struct crash_history *h, uint64_t first, uint64_t last)
{
	const struct crash *c;
	uint64_t after = 0;

	for (uint64_t n = first; n <= last; n++, after = c->number) {
		c = crash_history_next(h, after);
		assert_non_null(c);
		assert_int_equal(c->number, n);
	}
	assert_null(crash_history_next(h, after));
	assert_null(crash_history_next(h, UINT64_MAX));
	assert_int_equal(crash_history_count(h), last + 1 - first);
}

static void the_history_keeps_the_newest(void **state)
{
	cleanup(history_local) struct crash_history *h = NULL;

	assert_int_equal(crash_history_new(3, &h), 0);
	assert_numbers(h, 1, 0);
	for (uint64_t n = 1; n <= 10; n++) {
		assert_int_equal(crash_history_add(h, any_crash()), n);
		assert_numbers(h, n > 3 ? n - 2 : 1, n);
	}
	assert_int_equal(crash_history_next(h, 8)->number, 9);
	assert_null(crash_history_next(h, 10));
	assert_null(crash_history_free(NULL));
}

static void a_history_of_nothing_numbers_all_the_same(void **state)
{
	cleanup(history_local) struct crash_history *h = NULL;

	assert_int_equal(crash_history_new(0, &h), 0);
	assert_int_equal(crash_history_add(h, any_crash()), 1);
	assert_int_equal(crash_history_add(h, any_crash()), 2);
	assert_int_equal(crash_history_count(h), 0);
	assert_null(crash_history_next(h, 0));
	assert_int_equal(crash_history_resize(h, 2), 0);
	assert_int_equal(crash_history_add(h, any_crash()), 3);
	assert_numbers(h, 3, 3);
}

static void a_history_can_be_resized(void **state)
{
	cleanup(history_local) struct crash_history *h = NULL;

	assert_int_equal(crash_history_new(4, &h), 0);
	for (int i = 0; i < 5; i++)
		crash_history_add(h, any_crash());
	assert_numbers(h, 2, 5);
	assert_int_equal(crash_history_resize(h, 2), 0); /* in the middle of the ring */
	assert_numbers(h, 4, 5);
	assert_int_equal(crash_history_resize(h, 5), 0);
	for (int i = 0; i < 4; i++)
		crash_history_add(h, any_crash());
	assert_numbers(h, 5, 9);
	assert_int_equal(crash_history_resize(h, 0), 0);
	assert_null(crash_history_next(h, 0));
	assert_int_equal(crash_history_add(h, any_crash()), 10);
}

/* ---- limit ---- */

/* How many of `n` crashes at this instant pass. */
static uint64_t pass(struct crash_limit *l, uint64_t cgroup, uint32_t per_minute, uint64_t now_ns, uint64_t n)
{
	uint64_t passed = 0, suppressed;

	while (n-- > 0)
		passed += crash_limit_pass(l, cgroup, per_minute, now_ns, &suppressed);
	return passed;
}

static void a_burst_passes_and_then_what_is_refilled(void **state)
{
	static const uint32_t rates[] = {1, 7, 10, 60, 599, 1000};

	for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
		cleanup(limit_local) struct crash_limit *l = NULL;
		uint64_t now = 1000 * NSEC_PER_SEC, rate = rates[i];

		assert_int_equal(crash_limit_new(8, &l), 0);
		assert_int_equal(pass(l, 1, rates[i], now, 2 * rate), rate);
		/* The next token is there exactly when 1/rate of a minute is over. */
		now += (60 * NSEC_PER_SEC + rate - 1) / rate - 1;
		assert_int_equal(pass(l, 1, rates[i], now, 5), 0);
		assert_int_equal(pass(l, 1, rates[i], now + 1, 5), 1);
		/* An hour does not fill more than the bucket. */
		now += 3600 * NSEC_PER_SEC;
		assert_int_equal(pass(l, 1, rates[i], now, 2 * rate), rate);
	}
}

static void over_a_day_the_rate_is_kept(void **state)
{
	cleanup(limit_local) struct crash_limit *l = NULL;
	uint64_t passed = 0;

	assert_int_equal(crash_limit_new(8, &l), 0);
	for (uint64_t s = 0; s < 86400; s++)
		passed += pass(l, 1, 7, s * NSEC_PER_SEC + s, 2);
	assert_in_range(passed, 7 * 1440, 7 * 1440 + 7);
}

static void what_was_suppressed_is_told_with_the_next(void **state)
{
	cleanup(limit_local) struct crash_limit *l = NULL;
	uint64_t suppressed = 4711;

	assert_int_equal(crash_limit_new(8, &l), 0);
	assert_true(crash_limit_pass(l, 1, 1, 5, &suppressed));
	assert_int_equal(suppressed, 0);
	suppressed = 4711;
	for (int i = 0; i < 41; i++)
		assert_false(crash_limit_pass(l, 1, 1, 5, &suppressed));
	assert_int_equal(suppressed, 4711);                     /* untouched */
	assert_true(crash_limit_pass(l, 2, 1, 5, &suppressed)); /* another cgroup has its own */
	assert_int_equal(suppressed, 0);
	assert_true(crash_limit_pass(l, 1, 1, 5 + 60 * NSEC_PER_SEC, &suppressed));
	assert_int_equal(suppressed, 41);
	assert_true(crash_limit_pass(l, 1, 1, 5 + 120 * NSEC_PER_SEC, &suppressed));
	assert_int_equal(suppressed, 0);
}

static void odd_rates_and_clocks(void **state)
{
	cleanup(limit_local) struct crash_limit *l = NULL;
	uint64_t suppressed;

	assert_int_equal(crash_limit_new(0, &l), 0);
	assert_int_equal(pass(l, 0, 0, 1000, 10), 0);
	assert_int_equal(pass(l, 0, 0, UINT64_MAX, 10), 0);
	assert_int_equal(pass(l, 5, UINT32_MAX, 0, 1000), 1000);
	assert_int_equal(pass(l, 5, UINT32_MAX, UINT64_MAX, 1000), 1000);
	/* Time that goes back fills nothing, not even when it has caught up. */
	assert_int_equal(pass(l, 6, 1, 100 * NSEC_PER_SEC, 2), 1);
	assert_int_equal(pass(l, 6, 1, 1 * NSEC_PER_SEC, 1), 0);
	assert_int_equal(pass(l, 6, 1, 100 * NSEC_PER_SEC, 1), 0);
	/* A smaller rate takes effect at once. */
	assert_int_equal(pass(l, 7, 100, 0, 1), 1);
	assert_int_equal(pass(l, 7, 3, 0, 100), 3);
	assert_true(crash_limit_pass(l, 7, 3, 20 * NSEC_PER_SEC, &suppressed));
	assert_int_equal(suppressed, 97);
	assert_null(crash_limit_free(NULL));
}

static void the_least_recently_used_cgroup_is_forgotten(void **state)
{
	cleanup(limit_local) struct crash_limit *l = NULL;

	assert_int_equal(crash_limit_new(3, &l), 0);
	for (uint64_t id = 1; id <= 3; id++)
		assert_int_equal(pass(l, id, 1, 0, 5), 1);
	assert_int_equal(pass(l, 1, 1, 0, 1), 0); /* now 2 is the oldest */
	assert_int_equal(pass(l, 4, 1, 0, 5), 1);
	assert_int_equal(pass(l, 3, 1, 0, 1), 0);
	assert_int_equal(pass(l, 1, 1, 0, 1), 0);
	assert_int_equal(pass(l, 2, 1, 0, 5), 1); /* begins anew */
	assert_int_equal(pass(l, 4, 1, 0, 5), 1); /* was the oldest then */
	for (uint64_t id = 10; id < 10000; id++)
		assert_int_equal(pass(l, id, 1, 0, 2), 1);
	assert_int_equal(pass(l, 9999, 1, 0, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_record_becomes_a_crash),
	    cmocka_unit_test(access_is_decoded_as_the_architecture_has_it),
	    cmocka_unit_test(strings_become_valid_utf8_and_end),
	    cmocka_unit_test(any_bytes_give_a_valid_crash),
	    cmocka_unit_test(places_of_x86),
	    cmocka_unit_test(only_a_signal_that_has_an_address_has_one),
	    cmocka_unit_test(general_protection_faults_of_x86),
	    cmocka_unit_test(other_faults_without_an_address),
	    cmocka_unit_test(places_of_arm64_are_told_without_the_tag),
	    cmocka_unit_test(frames_are_files_the_program_or_nothing),
	    cmocka_unit_test(short_build_ids_have_their_own_length),
	    cmocka_unit_test(the_number_of_frames_is_bounded),
	    cmocka_unit_test(a_fingerprint_survives_another_run),
	    cmocka_unit_test(a_fingerprint_tells_places_apart),
	    cmocka_unit_test(frames_that_come_at_the_end_are_as_good),
	    cmocka_unit_test(the_first_frame_in_nothing_ends_a_fingerprint),
	    cmocka_unit_test(leading_frames_in_nothing_are_skipped_but_counted),
	    cmocka_unit_test(without_a_build_id_the_program_s_path_tells_it_apart),
	    cmocka_unit_test(a_fingerprint_is_the_same_everywhere),
	    cmocka_unit_test(the_history_keeps_the_newest),
	    cmocka_unit_test(a_history_of_nothing_numbers_all_the_same),
	    cmocka_unit_test(a_history_can_be_resized),
	    cmocka_unit_test(a_burst_passes_and_then_what_is_refilled),
	    cmocka_unit_test(over_a_day_the_rate_is_kept),
	    cmocka_unit_test(what_was_suppressed_is_told_with_the_next),
	    cmocka_unit_test(odd_rates_and_clocks),
	    cmocka_unit_test(the_least_recently_used_cgroup_is_forgotten),
	};

	return cmocka_run_group_tests_name("crash", tests, NULL, NULL);
}
