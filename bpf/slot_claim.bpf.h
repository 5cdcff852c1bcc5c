/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a cgroup to its slot: what all counting programs share. The maps are sized by the daemon between open and load. One object
 * creates them, the others reuse them.
 */
#pragma once

#include <linux/errno.h>

#include "bpf/drops.bpf.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} slot_owner SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u32);
} slot_by_cgroup SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, 1);
	__uint(key_size, 0);
	__type(value, __u32);
} free_slots SEC(".maps");

static __always_inline void slot_give_back(__u32 slot)
{
	if (bpf_map_push_elem(&free_slots, &slot, BPF_ANY))
		drop_count(FAULT_DROP_SLOT_LEAKED);
}

/* Takes a free slot for the cgroup; FAULT_SLOT_OTHER if there is none. Two CPUs may try at once: one insert wins.
 * *retry is set when the answer is only good for this once. */
static __always_inline __u32 slot_claim(__u64 id, bool *retry)
{
	__u32 slot = FAULT_SLOT_OTHER, *winner;
	__u64 *owner;
	long err;

	err = bpf_map_pop_elem(&free_slots, &slot);
	if (err) {
		/* Empty, or busy: in an NMI the stack's lock is not waited for. */
		*retry = err != -ENOENT;
		drop_count(*retry ? FAULT_DROP_TABLE_BUSY : FAULT_DROP_NO_SLOT);
		return FAULT_SLOT_OTHER;
	}
	err = bpf_map_update_elem(&slot_by_cgroup, &id, &slot, BPF_NOEXIST);
	if (likely(!err)) {
		owner = bpf_map_lookup_elem(&slot_owner, &slot);
		if (owner)
			*(volatile __u64 *)owner = id;
		return slot;
	}
	slot_give_back(slot);
	if (err == -EEXIST) {
		winner = bpf_map_lookup_elem(&slot_by_cgroup, &id);
		if (winner)
			return *winner;
	}
	*retry = err != -E2BIG;
	drop_count(err == -E2BIG ? FAULT_DROP_TABLE_FULL : FAULT_DROP_TABLE_BUSY);
	return FAULT_SLOT_OTHER;
}

/* The slot of a cgroup, claimed if it has none; FAULT_SLOT_OTHER if it cannot have one or shall not. *retry as above. */
static __always_inline __u32 slot_of(__u64 id, bool *retry)
{
	__u32 *known = bpf_map_lookup_elem(&slot_by_cgroup, &id);

	return known ? *known : slot_claim(id, retry);
}

/* Of the current task, in the default hierarchy (v2), or in that of the memory controller. Each hierarchy has ids of its own, from 1
 * for its root: all programs of one daemon must ask for the same. */
static __always_inline __u64 current_cgroup_id(bool memory)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct cgroup_subsys_state **subsys;

	if (!memory)
		return task->cgroups->dfl_cgrp->kn->id;
	subsys = task->cgroups->subsys;
	return subsys[bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)]->cgroup->kn->id;
}
