/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the BPF programs and the daemon agree on: the memory both see. Fixed-width types only; sizes and offsets are
 * asserted on both sides. FAULT_ABI_VERSION changes with any change of meaning or layout here.
 *
 * How a fault finds its counter
 *   Each CPU remembers the cell it counted in last. If that cell bears the id of the current task's cgroup, its class counter
 *   grows by one and that was all. Else slot_by_cgroup gives the cgroup's slot, or a free one is claimed, and the CPU's cell of
 *   that slot is given the id and remembered. Slot 0 counts for every cgroup that has no slot of its own, so no fault goes
 *   uncounted.
 *   A CPU that turns to a slot sets its bit in slot_touched after the cache and before the count, so that the daemon reads the
 *   cells in use, not slots x CPUs of them.
 * Who writes
 *   Programs claim slots; only the daemon gives them back (clear slot_owner, the ids in the cells and slot_by_cgroup, wait until
 *   no program can still be inside, read the last counts, zero the cells, push the slot on free_slots). Counters are never
 *   reset while in use.
 */
#pragma once

#include <linux/types.h>

#define FAULT_ABI_VERSION 2

/* ---- classes ---- */

enum fault_mode { FAULT_USER, FAULT_KERNEL, FAULT_MODES };
enum fault_access { FAULT_READ, FAULT_WRITE, FAULT_EXEC, FAULT_ACCESSES };
enum fault_kind { FAULT_MISSING, FAULT_PROTECTION, FAULT_OTHER, FAULT_KINDS };

#define FAULT_CLASS(mode, access, kind) (((mode)*FAULT_ACCESSES + (access)) * FAULT_KINDS + (kind))
/* Faults of a probe that sees the mode but neither access nor kind (the perf event). */
#define FAULT_CLASS_MODE_ONLY(mode) (FAULT_MODES * FAULT_ACCESSES * FAULT_KINDS + (mode))
/* Classes that the programs count. */
#define FAULT_CLASSES 20
/* Only in the daemon: a source that gives totals alone (memory.stat). */
#define FAULT_CLASS_UNKNOWN FAULT_CLASSES
#define FAULT_CLASSES_ALL 21

/* ---- memory shared by mmap ---- */

/* Map fault_cells: array of slots x possible CPUs, row by CPU, mmap-able. A cell is counted in by its own CPU only. */
struct fault_cell {
	__u64 id; /* cgroup that may count here; 0: nobody, and always in slot 0 */
	__u64 count[FAULT_CLASSES];
	__u64 pad[3];
};

/* One per possible CPU, a cache line each, in the .bss of each counting object. Any value of `cell` is safe, the cell's id
 * confirms it. `folded` is the id whose faults go to slot 0 without a look-up; the daemon zeroes it to have it asked anew. */
struct slot_cache {
	__u64 folded;
	__u32 cell;
	__u32 pad[13];
};
#define FAULT_CPUS_MAX 2048

/* Map slot_owner: __u64 cgroup id per slot, mmap-able, 0 = free. Entry 0 stays 0. Tells the daemon of claims.
 * Map slot_by_cgroup: hash of __u64 cgroup id to __u32 slot; value 0 folds the cgroup.
 * Map free_slots: stack of __u32. */
#define FAULT_SLOT_OTHER 0
/* Map slot_touched: __u64 words, FAULT_TOUCHED_WORDS(slots) per possible CPU, mmap-able; the daemon takes the bits away. */
#define FAULT_TOUCHED_WORDS(slots) (((slots) + 63) / 64)
/* Folded cgroups stay in slot_by_cgroup, so it is larger than the number of slots by this factor. */
#define FAULT_HASH_FACTOR 4

/* Map drops: array of __u64, mmap-able: what could not be done, by reason. Nothing here loses a fault unless it says so. */
enum fault_drop {
	FAULT_DROP_NO_SLOT,    /* claims that failed for want of a free slot: the cgroup counts as other */
	FAULT_DROP_TABLE_FULL, /* slot_by_cgroup was full: the cgroup counts as other */
	FAULT_DROP_TABLE_BUSY, /* slot_by_cgroup refused the update (bucket locked on this CPU): this fault counts as other */
	FAULT_DROP_SLOT_LEAKED,   /* a claimed slot could not be given back */
	FAULT_DROP_UNCOUNTED,     /* faults that found no cell: lost */
	FAULT_DROP_CGROUP_RING,   /* cgroup birth or death records lost: the ring was full */
	FAULT_DROP_BAD_UNCOUNTED, /* bad accesses that found no cell: lost */
	FAULT_DROP_BAD_NOTE, /* no memory to remember a delivery: a fatal one may count as handled, too, a sent one as the kernel's */
	FAULT_DROP_BAD_LATENCY, /* bad accesses whose time from the fault to the delivery is not known */
	FAULT_DROP_CRASH_RING,  /* crash records lost: the ring was full; the crash itself was counted */
	FAULT_DROPS
};

/* ---- cgroup life records, map cgroup_ring ---- */

enum cgroup_event_type { CGROUP_BORN = 1, CGROUP_DIED, CGROUP_RENAMED };

/* The kernel cuts paths in these tracepoints at 1,024 bytes; a cut path has no place in `path_len` < CGROUP_PATH_BYTES. */
#define CGROUP_PATH_BYTES 1024

struct cgroup_event {
	__u64 id;
	__u32 type;
	__u32 path_len; /* without the NUL; CGROUP_PATH_BYTES - 1 means that it may have been cut */
	char path[CGROUP_PATH_BYTES];
};

_Static_assert(FAULT_CLASS_MODE_ONLY(FAULT_KERNEL) + 1 == FAULT_CLASSES, "classes are dense");
_Static_assert(sizeof(struct fault_cell) == 192, "fault_cell fills three cache lines");
_Static_assert(__builtin_offsetof(struct fault_cell, count) == 8, "fault_cell is part of the ABI");
_Static_assert(sizeof(struct slot_cache) == 64, "slot_cache fills a cache line");
_Static_assert(__builtin_offsetof(struct slot_cache, cell) == 8, "slot_cache is part of the ABI");
_Static_assert(sizeof(struct cgroup_event) == 16 + CGROUP_PATH_BYTES, "cgroup_event is part of the ABI");
_Static_assert(__builtin_offsetof(struct cgroup_event, path) == 16, "cgroup_event is part of the ABI");
