/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the current task's cgroup to its slot: the part of the hot path that every counting program shares.
 * The maps are sized by the daemon between open and load. One object creates them, the others reuse them.
 */
#pragma once

#include <linux/errno.h>

#include "bpf/drops.bpf.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Set by the daemon before load: rows of fault_cells. */
const volatile __u32 nr_slots = 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot_cache);
} slot_cache SEC(".maps");

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
 * *retry is set when the answer is only good for this one fault. */
static __always_inline __u32 slot_claim(__u64 id, bool *retry)
{
	__u32 slot = FAULT_SLOT_OTHER, *winner;
	__u64 *owner;
	long err;

	if (bpf_map_pop_elem(&free_slots, &slot)) {
		drop_count(FAULT_DROP_NO_SLOT);
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

/* The slow path: asked when a CPU turns to another cgroup. */
static __noinline __u32 slot_find(struct slot_cache *cache, __u64 id)
{
	__u32 *known, slot;
	bool retry = false;

	if (!cache)
		return FAULT_SLOT_OTHER;
	known = bpf_map_lookup_elem(&slot_by_cgroup, &id);
	slot = known ? *known : slot_claim(id, &retry);
	if (slot != FAULT_SLOT_OTHER)
		*(volatile __u32 *)&cache->slot = slot;
	else if (!retry)
		*(volatile __u64 *)&cache->folded = id;
	return slot;
}

/* The slot of the current task's cgroup on the default hierarchy. Each of the two cached words is written whole, so a
 * program that preempts this one on its CPU (kernels >= 7, fentry) can make it ask again but never count for another cgroup. */
static __always_inline __u32 slot_of_current(__u32 cpu)
{
	struct slot_cache *cache = bpf_map_lookup_elem(&slot_cache, &cpu);
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 id = task->cgroups->dfl_cgrp->kn->id, *owner;
	__u32 slot;

	if (unlikely(!cache))
		return FAULT_SLOT_OTHER;
	slot = *(volatile __u32 *)&cache->slot;
	owner = bpf_map_lookup_elem(&slot_owner, &slot);
	if (likely(owner && *(volatile __u64 *)owner == id))
		return slot;
	if (*(volatile __u64 *)&cache->folded == id)
		return FAULT_SLOT_OTHER;
	return slot_find(cache, id);
}
