/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/crash_address.h"

#include <string.h>

#include "bpf/fault_class.h"
#include "daemon/model/bad_access.h"

/* The codes of the signals, as classes. */
#define SEGV_MAPERR (BAD_BASE_SEGV + 1)
#define SEGV_ACCERR (BAD_BASE_SEGV + 2)
#define SEGV_PKUERR (BAD_BASE_SEGV + 4)
#define SEGV_MTESERR (BAD_BASE_SEGV + 9)
#define SEGV_KERNEL (BAD_BASE_SEGV + BAD_CODE_KERNEL(BAD_CODES_SEGV))
#define BUS_ADRALN (BAD_BASE_BUS + 1)
#define BUS_KERNEL (BAD_BASE_BUS + BAD_CODE_KERNEL(BAD_CODES_BUS))

#define X86_TRAP_STACK_SEGMENT 12
#define X86_TRAP_GENERAL_PROTECTION 13
#define X86_TRAP_PAGE_FAULT 14

/* The largest vm.mmap_min_addr in use, and the largest page. */
#define NULL_PAGE_END (UINT64_C(64) << 10)
/* How far below the stack pointer an access still is the stack's: the kernel itself once drew the line there. */
#define STACK_BELOW (UINT64_C(64) << 10)
/* And above it: a frame that was just made is first touched anywhere within it. Not more, for what runs over the
 * stack's upper end is no exhausted stack. */
#define STACK_ABOVE (UINT64_C(4) << 10)
/* User addresses of arm64 have at most 52 bits. */
#define ARM64_USER_END (UINT64_C(1) << 52)

/* ---- instructions of x86 ---- */

/* An instruction without its prefixes. */
struct opcode {
	bool is_0f;       /* of the map behind 0f */
	bool has_66;      /* operand size prefix, or the same in VEX */
	bool has_rex_b;   /* the base register is one of the upper eight */
	uint8_t bytes[3]; /* opcode, ModRM, SIB; 0 where the record ends before */
};

static bool is_legacy_prefix(uint8_t b)
{
	return b == 0x66 || b == 0x67 || b == 0xf0 || b == 0xf2 || b == 0xf3 || b == 0x2e || b == 0x36 || b == 0x3e ||
	       b == 0x26 || b == 0x64 || b == 0x65;
}

static struct opcode decode(const uint8_t *code, size_t n)
{
	struct opcode o = {0};
	size_t at = 0;

	for (; at < n && is_legacy_prefix(code[at]); at++)
		o.has_66 |= code[at] == 0x66;
	if (at + 1 < n && code[at] == 0xc5) { /* VEX of two bytes: map 0f, no REX.B */
		o.is_0f = true;
		o.has_66 = (code[at + 1] & 3) == 1;
		at += 2;
	} else {
		if (at < n && (code[at] & 0xf0) == 0x40)
			o.has_rex_b = code[at++] & 1;
		if (at < n && code[at] == 0x0f) {
			o.is_0f = true;
			at++;
		}
	}
	for (size_t i = 0; i < sizeof(o.bytes) && at < n; i++)
		o.bytes[i] = code[at++];
	return o;
}

/* Instructions that user mode may not execute raise a general protection fault, too. Intel SDM vol. 3, "Privileged
 * Instructions" and vol. 1, "I/O-Sensitive Instructions". */
static bool is_privileged(const struct opcode *o)
{
	uint8_t b = o->bytes[0];

	if (!o->is_0f) /* hlt; cli, sti; in, out; ins, outs */
		return b == 0xf4 || b == 0xfa || b == 0xfb || (b >= 0xe4 && b <= 0xe7) || (b >= 0xec && b <= 0xef) ||
		       (b >= 0x6c && b <= 0x6f);
	/* lldt..., lgdt...; clts, sysret, invd, wbinvd; mov to and from control and debug registers; wrmsr, rdtsc,
	 * rdmsr, rdpmc; sysexit */
	return b <= 0x01 || (b >= 0x06 && b <= 0x09) || (b >= 0x20 && b <= 0x23) || (b >= 0x30 && b <= 0x33) ||
	       b == 0x35;
}

/* A vector move to or from an unaligned place on the stack, the usual end of a caller that breaks the ABI's
 * alignment. By the stack pointer or the frame pointer a non-canonical address would have been a stack fault (SDM
 * vol. 1, "Memory Operand Segment"), so it is none. */
static bool is_misaligned_on_stack(const struct opcode *o)
{
	uint8_t b = o->bytes[0], mod = o->bytes[1] >> 6, rm = o->bytes[1] & 7, base = o->bytes[2] & 7;
	bool is_aligned_move =
	    b == 0x28 || b == 0x29 || b == 0x2b || (o->has_66 && (b == 0x6f || b == 0x7f || b == 0xe7));

	if (!o->is_0f || !is_aligned_move || mod == 3 || o->has_rex_b)
		return false;
	if (rm == 4)
		return base == 4 || (base == 5 && mod != 0);
	return rm == 5 && mod != 0;
}

/* A general protection or stack fault tells no address, but there are few reasons for one. With an error code it is
 * about a selector. */
static bool is_non_canonical(const struct crash_event *e)
{
	struct opcode o = {0};

	if (!(e->flags & CRASH_HAS_ERROR_CODE) || e->error_code != 0)
		return false;
	if (e->class == BUS_KERNEL)
		return e->trap == X86_TRAP_STACK_SEGMENT;
	if (e->class != SEGV_KERNEL || e->trap != X86_TRAP_GENERAL_PROTECTION)
		return false;
	if (!(e->flags & CRASH_HAS_INSTRUCTION))
		return true;
	o = decode(e->instruction, sizeof(e->instruction));
	return !is_privileged(&o) && !is_misaligned_on_stack(&o);
}

/* ---- addresses ---- */

/* The top byte of an arm64 pointer may hold a tag. */
static uint64_t untag(uint64_t address, enum crash_arch arch)
{
	if (arch != CRASH_ARCH_ARM64)
		return address;
	return address & UINT64_C(1) << 55 ? address | UINT64_C(0xff) << 56 : address & ~(UINT64_C(0xff) << 56);
}

static bool is_near(uint64_t address, uint64_t sp)
{
	return address < sp ? sp - address <= STACK_BELOW : address - sp < STACK_ABOVE;
}

static enum crash_address where_not_to_be_had(const struct crash_event *e, enum crash_arch arch, bool is_exec)
{
	uint64_t address = untag(e->address, arch);

	if (address >> 63)
		return CRASH_ADDRESS_KERNEL_HALF;
	if (arch == CRASH_ARCH_ARM64 && address >= ARM64_USER_END)
		return CRASH_ADDRESS_NON_CANONICAL;
	if (address < NULL_PAGE_END)
		return CRASH_ADDRESS_NULL_PAGE;
	if (!is_exec && is_near(address, untag(e->sp, arch)))
		return CRASH_ADDRESS_STACK_GUARD;
	return e->class == SEGV_MAPERR ? CRASH_ADDRESS_UNMAPPED : CRASH_ADDRESS_MAPPED;
}

bool crash_has_address(const struct crash_event *event, enum crash_arch arch)
{
	const char *code = bad_class_names(event->class).code;

	/* x86: the alignment check knows no address and gives 0. */
	return (event->flags & CRASH_HAS_ADDRESS) && strcmp(code, "sent") != 0 && strcmp(code, "kernel") != 0 &&
	       !(arch == CRASH_ARCH_X86_64 && event->class == BUS_ADRALN);
}

bool crash_has_access(const struct crash_event *event, enum crash_arch arch)
{
	if (!(event->flags & CRASH_HAS_ERROR_CODE))
		return false;
	return arch == CRASH_ARCH_ARM64 ? fault_is_arm64_abort(event->error_code) : event->trap == X86_TRAP_PAGE_FAULT;
}

enum crash_address crash_where(const struct crash_event *event, enum crash_arch arch, bool is_exec)
{
	if (!crash_has_address(event, arch))
		return arch == CRASH_ARCH_X86_64 && is_non_canonical(event) ? CRASH_ADDRESS_NON_CANONICAL
									    : CRASH_ADDRESS_NONE;
	switch (event->class) {
	case SEGV_MAPERR:
	case SEGV_ACCERR:
		return where_not_to_be_had(event, arch, is_exec);
	case SEGV_PKUERR:
	case SEGV_MTESERR:
		return CRASH_ADDRESS_MAPPED;
	default:
		return bad_class_signal(event->class) == BAD_BUS ? CRASH_ADDRESS_MAPPED : CRASH_ADDRESS_NONE;
	}
}
