/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The counters of what could not be done, one map for all objects. Sized and shared like the maps of slots.bpf.h.
 */
#pragma once

#include "bpf/fault_abi.h"
#include "bpf/ktypes.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FAULT_DROPS);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

static __always_inline void drop_count(__u32 reason)
{
	__u64 *drop = bpf_map_lookup_elem(&drops, &reason);

	if (drop)
		__sync_fetch_and_add(drop, 1);
}
