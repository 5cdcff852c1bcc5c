/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reports the birth, death and renaming of cgroups with their paths, so that a cgroup that lived for 10 ms still has a name.
 * Arguments of all three tracepoints: cgroup, path in its hierarchy. They fire under a spinlock with interrupts off.
 */
#include "bpf/drops.bpf.h"

/* Set by the daemon before load: only this hierarchy is reported (0 is the default, v2, hierarchy). */
const volatile __u32 hierarchy_id = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} cgroup_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cgroup_event);
} event_scratch SEC(".maps");

static __always_inline int report(__u32 type, struct cgroup *cgroup, const char *path)
{
	__u32 zero = 0;
	struct cgroup_event *event;
	__u64 size;
	long n;

	if ((__u32)cgroup->root->hierarchy_id != hierarchy_id)
		return 0;
	event = bpf_map_lookup_elem(&event_scratch, &zero);
	if (!event)
		return 0;
	event->id = cgroup->kn->id;
	event->type = type;
	n = bpf_probe_read_kernel_str(event->path, sizeof(event->path), path);
	event->path_len = n > 0 ? n - 1 : 0;
	/* Only the bytes in use travel: a burst of births must not fill the ring with padding. */
	size = __builtin_offsetof(struct cgroup_event, path) + (n > 0 ? n : 0);
	if (size > sizeof(*event))
		size = sizeof(*event);
	if (bpf_ringbuf_output(&cgroup_ring, event, size, 0))
		drop_count(FAULT_DROP_CGROUP_RING);
	return 0;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(cgroup_born, struct cgroup *cgroup, const char *path)
{
	return report(CGROUP_BORN, cgroup, path);
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(cgroup_died, struct cgroup *cgroup, const char *path)
{
	return report(CGROUP_DIED, cgroup, path);
}

SEC("tp_btf/cgroup_rename")
int BPF_PROG(cgroup_renamed, struct cgroup *cgroup, const char *path)
{
	return report(CGROUP_RENAMED, cgroup, path);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
