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

/* Set by the daemon before load: cells in a row of fault_cells. */
const volatile __u32 nr_slots = 1;

struct slot_cache slot_cache[FAULT_CPUS_MAX];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fault_cell);
} fault_cells SEC(".maps");

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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} slot_touched SEC(".maps");

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

static __always_inline void slot_touch(__u32 cpu, __u32 slot)
{
	__u32 at = cpu * FAULT_TOUCHED_WORDS(nr_slots) + slot / 64;
	__u64 *word = bpf_map_lookup_elem(&slot_touched, &at);

	if (word)
		__sync_fetch_and_or(word, 1ull << (slot % 64));
}

/* The slow path: asked when a CPU turns to another cgroup. Returns the cell's index. */
static __noinline __u32 cell_find(__u32 cpu, __u64 id)
{
	struct slot_cache *cache = &slot_cache[cpu % FAULT_CPUS_MAX];
	__u32 *known, slot, at = cpu * nr_slots;
	struct fault_cell *cell;
	bool retry = false;

	if (cache->folded == id)
		return at;
	known = bpf_map_lookup_elem(&slot_by_cgroup, &id);
	slot = known ? *known : slot_claim(id, &retry);
	if (slot == FAULT_SLOT_OTHER) {
		if (!retry)
			*(volatile __u64 *)&cache->folded = id;
		return at;
	}
	at += slot;
	cell = bpf_map_lookup_elem(&fault_cells, &at);
	if (cell)
		*(volatile __u64 *)&cell->id = id;
	*(volatile __u32 *)&cache->cell = at;
	slot_touch(cpu, slot);
	return at;
}

static __always_inline __u64 current_cgroup_id(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	return task->cgroups->dfl_cgrp->kn->id;
}

/* The cell of this CPU for the current task's cgroup on the default hierarchy; NULL only if the maps are not what they should
 * be. Cached words are written whole, so a program that preempts this one on its CPU (kernels >= 7, fentry) can make it ask
 * again but never count for another cgroup. */
static __always_inline struct fault_cell *cell_of_current(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 at = *(volatile __u32 *)&slot_cache[cpu % FAULT_CPUS_MAX].cell;
	__u64 id = current_cgroup_id();
	struct fault_cell *cell = bpf_map_lookup_elem(&fault_cells, &at);

	if (likely(cell && *(volatile __u64 *)&cell->id == id))
		return cell;
	at = cell_find(cpu, id);
	return bpf_map_lookup_elem(&fault_cells, &at);
}
