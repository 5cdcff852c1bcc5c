/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crashes: the record of a fatal bad access, a bounded history of them, and the limit on how many a cgroup may write.
 * Knows no clock and no descriptor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/bad_access_abi.h"
#include "bpf/fault_abi.h"
#include "daemon/model/identity.h"

/* Where the address lies, as far as the fault itself tells: the process is gone before anybody could look. */
enum crash_address {
	CRASH_ADDRESS_NONE,          /* the signal has no address */
	CRASH_ADDRESS_NULL_PAGE,     /* within the first 64 KiB, where nothing is ever mapped */
	CRASH_ADDRESS_STACK_GUARD,   /* next to the stack pointer and not to be had: the stack is exhausted */
	CRASH_ADDRESS_NON_CANONICAL, /* no address on this CPU (x86: a general protection fault tells no address) */
	CRASH_ADDRESS_KERNEL_HALF,
	CRASH_ADDRESS_UNMAPPED,
	CRASH_ADDRESS_MAPPED, /* a mapping that forbids this access, or whose file has no such page */
	CRASH_ADDRESSES
};
/* "none", "null page", "stack guard", ...; never NULL. */
const char *crash_address_name(enum crash_address address);

enum crash_core { CRASH_CORE_UNKNOWN, CRASH_CORE_NONE, CRASH_CORE_WRITTEN };
/* "unknown", "none", "written" */
const char *crash_core_name(enum crash_core core);

/* Which addresses a reader may see. Offsets into files are no addresses. */
enum crash_disclosure {
	CRASH_ADDRESSES_NONE,  /* nobody */
	CRASH_ADDRESSES_LOCAL, /* who may ask the daemon on this host; not the journal, not the collector */
	CRASH_ADDRESSES_ALL,
};

enum crash_arch { CRASH_ARCH_X86_64, CRASH_ARCH_ARM64 };

struct crash_frame {
	enum { CRASH_IN_NOTHING, CRASH_IN_BUILD_ID, CRASH_IN_PROGRAM } in;
	char build_id[2 * CRASH_BUILD_ID_BYTES + 1]; /* hexadecimal, as file(1) prints it; "" unless in a build id */
	uint64_t
	    offset; /* in the file of the build id; from the beginning of the program's text; or 0: the address is not kept */
};

struct crash {
	uint64_t number; /* 1, 2, ... in this daemon's life; given by the history */
	uint64_t time_unix_ns;
	uint64_t cgroup_id;
	struct identity *identity;       /* owned, never NULL */
	uint32_t pid, tid;               /* as the host sees them */
	uint32_t pid_inside, tid_inside; /* as the container sees them */
	uint32_t uid;
	uint32_t sender_pid;  /* 0: not sent, or not known */
	char *comm;           /* owned, valid UTF-8 */
	char *exe;            /* owned, valid UTF-8, "" if not known; begins with ".../" where it was cut */
	uint32_t class;       /* bad_class_names() */
	int32_t signal, code; /* raw */
	bool collapsed; /* a handler was entered before: it failed for want of stack, or raised the signal again */
	bool has_address;
	uint64_t address, ip, sp; /* disclosed only as crash_disclosure says */
	bool has_error_code;      /* of a page fault (x86: trap 14, arm64: an abort): no other fault has an access */
	uint64_t error_code;      /* raw */
	enum fault_access access; /* meaningful if has_error_code */
	enum fault_kind kind;     /* the same */
	enum crash_address where;
	uint64_t fingerprint; /* equal for crashes at the same place of the same program: signal, code and top frames */
	size_t n_frames;
	struct crash_frame frames[CRASH_FRAMES]; /* innermost first */
	enum crash_core core;
	uint64_t suppressed; /* crashes of this cgroup that left no record since the one before */
};

/* Makes a crash of a record of the kernel's. `time_unix_ns` is its time on the wall clock. Takes over `identity`,
 * always. Pure but for memory; whatever is in the record gives a valid crash. -ENOMEM. */
int crash_new(const struct crash_event *event, enum crash_arch arch, uint64_t time_unix_ns, struct identity *identity,
	      struct crash **ret);
/* The frames that were read when the process ended, where they could not be when it crashed; makes the fingerprint anew. */
void crash_set_frames(struct crash *c, const struct crash_exit_event *event);
struct crash *crash_free(struct crash *c);

/* ---- history ---- */

struct crash_history;

/* Keeps the newest `max`; 0 keeps none. -ENOMEM. */
int crash_history_new(size_t max, struct crash_history **ret);
struct crash_history *crash_history_free(struct crash_history *h);
/* Takes over `c`, numbers it, drops the oldest if full. The number is also written when nothing is kept (then `c` is
 * freed). */
uint64_t crash_history_add(struct crash_history *h, struct crash *c);
/* The oldest kept with a number above `after`, borrowed until the next add or resize; NULL if none. */
const struct crash *crash_history_next(const struct crash_history *h, uint64_t after);
size_t crash_history_count(const struct crash_history *h);
/* A smaller bound drops the oldest at once. -ENOMEM (then nothing changed). */
int crash_history_resize(struct crash_history *h, size_t max);

/* ---- limit ---- */

/* A bucket of tokens per cgroup: `per_minute` records in a burst, refilled evenly. Bounded memory: the least
 * recently used cgroups are forgotten (what was suppressed of them is not told any more; the counters know it). */
struct crash_limit;

int crash_limit_new(size_t max_cgroups, struct crash_limit **ret);
struct crash_limit *crash_limit_free(struct crash_limit *l);
/* True: this crash of the cgroup may leave a record; *ret_suppressed is how many did not since the last that did. 0
 * per minute lets none pass. `now_ns` is monotonic. */
bool crash_limit_pass(struct crash_limit *l, uint64_t cgroup_id, uint32_t per_minute, uint64_t now_ns,
		      uint64_t *ret_suppressed);
