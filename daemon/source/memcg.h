/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault totals from memory.stat: major faults beside the BPF probe, and all faults (the last rung) where BPF is refused.
 *
 * memory.stat is hierarchical, so a cgroup's own share is its growth less that of its children; what a child counted
 * between its last reading and its death goes to the parent. Shares never go negative: a reading that would make one so (parent
 * and child are not read at one instant) is carried over. The sum over all cgroups grows exactly as the root's total does.
 * The kernel may deliver counts up to 2 s late.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct memcg;

enum memcg_flavour { MEMCG_V2, MEMCG_V1 };

/* `mount` of the hierarchy that has the memory controller. -ENOMEM, -ENOENT. */
int memcg_new(const char *mount, enum memcg_flavour flavour, size_t capacity, struct memcg **ret);
struct memcg *memcg_free(struct memcg *m);

struct memcg_growth {
	const char *path; /* of the cgroup, in this hierarchy; valid during the call */
	uint64_t id;      /* inode number of its directory */
	uint64_t faults;  /* own growth of pgfault since the last call, major ones included */
	uint64_t major;   /* own growth of pgmajfault */
};

/* Begins a round over all cgroups, reading at most `budget` of them per call so that no call blocks the loop for long, and reports
 * each growth when the round is complete. The first round only takes bearings, so that nothing from before is counted.
 * Returns 1 if the round was completed by this call, 0 if more calls are needed, -errno if the hierarchy is gone. */
int memcg_step(struct memcg *m, size_t budget, void (*grown)(const struct memcg_growth *g, void *userdata),
	       void *userdata);
