/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bad accesses: what bpf/bad_access.bpf.c and the daemon agree on. Part of the ABI that FAULT_ABI_VERSION numbers.
 *
 * A bad access is a SIGSEGV or SIGBUS that was delivered; with it, by configuration, other signals of a fault. It is counted in the
 * slot of the victim's cgroup, by class (signal and code) and outcome, at the instant of its delivery. A delivery that turns out to
 * be the beginning of a fatal one (the handler's frame did not fit on the stack, a handler raised the signal again) is taken back:
 * its `handled` count goes down by one, and the fatal one is counted under its class. So a reader must let a count that went
 * down stand until it has caught up.
 */
#pragma once

#include <linux/types.h>

/* ---- classes: a signal and a code ---- */

enum bad_signal { BAD_SEGV, BAD_BUS, BAD_ILL, BAD_FPE, BAD_TRAP, BAD_SYS, BAD_ABRT, BAD_SIGNALS };
enum bad_outcome { BAD_HANDLED, BAD_FATAL, BAD_OUTCOMES };

/* Of each signal: code 0 is any that is not known; 1 up to BAD_CODES are si_code as the kernel numbers them; then two more. For ABRT
 * code 1 is the process' own abort(). */
#define BAD_CODE_OTHER 0
#define BAD_CODES_SEGV 10
#define BAD_CODES_BUS 5
#define BAD_CODES_ILL 8
#define BAD_CODES_FPE 8
#define BAD_CODES_TRAP 6
#define BAD_CODES_SYS 2
#define BAD_CODES_ABRT 1
/* SI_KERNEL: the kernel gives no code, as for a general protection fault of x86. Then: sent by a process, whatever code it claims. */
#define BAD_CODE_KERNEL(codes) ((codes) + 1)
#define BAD_CODE_SENT(codes) ((codes) + 2)

#define BAD_BASE_SEGV 0
#define BAD_BASE_BUS (BAD_BASE_SEGV + BAD_CODES_SEGV + 3)
#define BAD_BASE_ILL (BAD_BASE_BUS + BAD_CODES_BUS + 3)
#define BAD_BASE_FPE (BAD_BASE_ILL + BAD_CODES_ILL + 3)
#define BAD_BASE_TRAP (BAD_BASE_FPE + BAD_CODES_FPE + 3)
#define BAD_BASE_SYS (BAD_BASE_TRAP + BAD_CODES_TRAP + 3)
#define BAD_BASE_ABRT (BAD_BASE_SYS + BAD_CODES_SYS + 3)
#define BAD_CLASSES (BAD_BASE_ABRT + BAD_CODES_ABRT + 3)
/* Room in a cell. */
#define BAD_CLASSES_MAX 64

/* ---- counters ---- */

/* Map bad_cells: array of one per slot, mmap-able; all CPUs add to it atomically. Map bad_touched: __u64 words, mmap-able, a bit per
 * slot, set after the count; the daemon takes the bits away before it reads the cells. */
struct bad_cell {
	__s64 count[BAD_OUTCOMES][BAD_CLASSES_MAX];
};

/* Map bad_latency: array of one per slot, mmap-able, only if asked for: time from the page fault to the delivery of its signal.
 * Bucket b counts what took less than BAD_LATENCY_FIRST_NS << b, the last one all the rest. */
#define BAD_LATENCY_FIRST_NS 512
#define BAD_LATENCY_BUCKETS 16
struct bad_latency {
	__u64 bucket[BAD_LATENCY_BUCKETS];
	__u64 sum_ns;
	__u64 pad[7];
};

/* ---- records of fatal ones, map crash_ring ---- */

enum crash_event_type { CRASH_DELIVERED = 1, CRASH_EXITED };

#define CRASH_COMM_BYTES 16
#define CRASH_EXE_BYTES 512
#define CRASH_FRAMES 16
#define CRASH_BUILD_ID_BYTES 20

enum crash_frame_kind {
	CRASH_FRAME_NONE,     /* nothing is known of this address but the address */
	CRASH_FRAME_BUILD_ID, /* an offset in the file that bears this build id */
};

struct crash_event_frame {
	__u32 kind;
	__u8 build_id[CRASH_BUILD_ID_BYTES];
	__u64 offset; /* CRASH_FRAME_NONE: the address itself */
};

/* Bits of crash_event.flags */
#define CRASH_HAS_ADDRESS 1u    /* `address` is the signal's */
#define CRASH_HAS_ERROR_CODE 2u /* trap and error_code are of this fault */
#define CRASH_EXE_CUT 4u        /* the path had more components or bytes than fit; its end is there */
#define CRASH_HAS_INSTRUCTION 8u
#define CRASH_COLLAPSED \
	16u /* the end of a delivery that had looked handled: class, code and addresses are of the first one */

/* First member of both records. */
struct crash_head {
	__u32 type;
	__u32 tgid; /* as the host sees it */
	__u32 tid;
	__u32 pad;
};

struct crash_event {
	struct crash_head head; /* CRASH_DELIVERED */
	__u64 time_ns;          /* CLOCK_MONOTONIC */
	__u64 cgroup_id;
	__u32 class;  /* of the count */
	__s32 signal; /* as the architecture numbers it */
	__s32 code;   /* si_code as the kernel has it */
	__u32 flags;
	__u32
	    tgid_inside; /* as the innermost pid namespace sees them; equal to those of the head if there is only the host's */
	__u32 tid_inside;
	__u32 uid;         /* real, of the host */
	__u32 sender_tgid; /* class `sent`: who, if known; else 0 */
	__u64 address;
	__u64 ip, sp;
	__u64 trap;       /* x86: trap number; arm64: 0 */
	__u64 error_code; /* x86: error code; arm64: ESR */
	__u64 code_begin,
	    code_end; /* addresses of the program's own text: a frame within is program + (address - code_begin) */
	__u8 instruction[8];         /* at ip */
	char comm[CRASH_COMM_BYTES]; /* NUL-terminated */
	char exe
	    [CRASH_EXE_BYTES]; /* path of the program as its mount namespace has it, NUL-terminated; "" if there is none */
	__u32 n_frames;
	__u32 pad;
	struct crash_event_frame frames[CRASH_FRAMES];
};

struct crash_exit_event {
	struct crash_head head; /* CRASH_EXITED: the thread that a CRASH_DELIVERED was about has ended */
	__u32 core_written;     /* 0 or 1 */
	__u32 n_frames;         /* 0: those of the CRASH_DELIVERED stand */
	__u64 code_begin, code_end;
	struct crash_event_frame frames[CRASH_FRAMES];
};

_Static_assert(BAD_CLASSES <= BAD_CLASSES_MAX, "bad_cell has room for all classes");
_Static_assert(sizeof(struct bad_cell) == 1024, "bad_cell is part of the ABI");
_Static_assert(sizeof(struct bad_latency) == 192, "bad_latency fills three cache lines");
_Static_assert(sizeof(struct crash_event_frame) == 32, "crash_event_frame is part of the ABI");
_Static_assert(sizeof(struct crash_event) ==
		   16 + 16 + 32 + 24 + 16 + 16 + 8 + CRASH_COMM_BYTES + CRASH_EXE_BYTES + 8 + 32 * CRASH_FRAMES,
	       "crash_event is part of the ABI");
_Static_assert(sizeof(struct crash_exit_event) == 40 + 32 * CRASH_FRAMES, "crash_exit_event is part of the ABI");
