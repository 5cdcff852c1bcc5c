/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the current task's cgroup to its cell on this CPU: the hot path of the programs that count page faults.
 */
#pragma once

#include "bpf/slot_claim.bpf.h"

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
} slot_touched SEC(".maps");

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
	__u32 slot, at = cpu * nr_slots;
	struct fault_cell *cell;
	bool retry = false;

	if (cache->folded == id)
		return at;
	slot = slot_of(id, &retry);
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

/* The cell of this CPU for the current task's cgroup, of v2 or of the memory controller; NULL only if the maps are not what they should
 * be. Cached words are written whole, so a program that preempts this one on its CPU (kernels >= 7, fentry) can make it ask
 * again but never count for another cgroup. */
static __always_inline struct fault_cell *cell_of_current(bool memory)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u32 at = *(volatile __u32 *)&slot_cache[cpu % FAULT_CPUS_MAX].cell;
	__u64 id = current_cgroup_id(memory);
	struct fault_cell *cell = bpf_map_lookup_elem(&fault_cells, &at);

	if (likely(cell && *(volatile __u64 *)&cell->id == id))
		return cell;
	at = cell_find(cpu, id);
	return bpf_map_lookup_elem(&fault_cells, &at);
}
