/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record of a fatal bad access, made while the process still is what it was. Runs with the victim current, its siglock held and
 * interrupts off: nothing here waits, and what cannot be read now is left out.
 */
#pragma once

#include "bpf/bad_access_abi.h"
#include "bpf/drops.bpf.h"
#include "bpf/user_regs.bpf.h"

/* Of a path at most so many components, of each so many bytes. */
#define PATH_COMPONENTS 24
#define COMPONENT_BYTES 256

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} crash_ring SEC(".maps");

/* A path in the making, from its end: components go before what is at text[at]. It is all in memory so that the verifier sees the
 * same state after each component. */
struct path_walk {
	struct dentry *dentry;
	struct mount *mount;
	__u32 at;
	__u32 done;
	char text[CRASH_EXE_BYTES + COMPONENT_BYTES]; /* the end is room for what the verifier thinks possible */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_walk);
} path_walks SEC(".maps");

/* False if there is no room. */
static __always_inline bool path_prepend(struct path_walk *w, struct dentry *dentry)
{
	__u32 len = BPF_CORE_READ(dentry, d_name.len), at = w->at;
	const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);

	if (len >= COMPONENT_BYTES || len + 1 >= at)
		return false;
	at -= len;
	bpf_probe_read_kernel(&w->text[at & (CRASH_EXE_BYTES - 1)], len & (COMPONENT_BYTES - 1), name);
	at -= 1;
	w->text[at & (CRASH_EXE_BYTES - 1)] = '/';
	w->at = at;
	return true;
}

/* One component, or out of one mount. */
static __always_inline void path_step(struct path_walk *w)
{
	struct dentry *dentry = w->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	struct mount *mount = w->mount, *above;

	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
		above = BPF_CORE_READ(mount, mnt_parent);
		w->done = above == mount || !above;
		w->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		w->mount = above;
		return;
	}
	if (!path_prepend(w, dentry))
		w->dentry = NULL;
	else if (dentry == parent) /* a file without a place, as memfd_create() makes */
		w->done = 1;
	else
		w->dentry = parent;
}

/* Puts the path of the current task's program into path_walks. 0, -1: there is none. Not static: the verifier looks at it by itself
 * then, and not once more for each way in which its caller gets there, which on 6.1 is half of what it accepts. */
__noinline int walk_exe(void)
{
	__u32 zero = 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct file *file = BPF_CORE_READ(task, mm, exe_file);
	struct path_walk *w = bpf_map_lookup_elem(&path_walks, &zero);
	struct vfsmount *vfsmount;

	if (!w || !file)
		return -1;
	vfsmount = BPF_CORE_READ(file, f_path.mnt);
	w->dentry = BPF_CORE_READ(file, f_path.dentry);
	w->mount = (struct mount *)((char *)vfsmount - bpf_core_field_offset(struct mount, mnt));
	w->done = 0;
	w->at = CRASH_EXE_BYTES - 1;
	w->text[CRASH_EXE_BYTES - 1] = '\0';
	for (int i = 0; i < PATH_COMPONENTS && !w->done && w->dentry; i++)
		path_step(w);
	return 0;
}

static __always_inline void read_exe(struct crash_event *e)
{
	__u32 zero = 0;
	struct path_walk *w = bpf_map_lookup_elem(&path_walks, &zero);

	e->exe[0] = '\0';
	if (walk_exe() < 0 || !w)
		return;
	if (!w->done)
		e->flags |= CRASH_EXE_CUT;
	bpf_probe_read_kernel_str(e->exe, sizeof(e->exe), &w->text[w->at & (CRASH_EXE_BYTES - 1)]);
}

/* enum of the kernel's struct bpf_stack_build_id, which a frame of the record is laid out like. */
#define STACK_ADDRESS 2

/* False if of no frame more than the address is known. Build ids need a look at the mappings, which the kernel grants only one program
 * per CPU until interrupts are on again, and none while the mappings change. */
static __always_inline bool read_frames(void *ctx, struct crash_event_frame frames[CRASH_FRAMES], __u32 *n)
{
	long bytes =
	    bpf_get_stack(ctx, frames, CRASH_FRAMES * sizeof(frames[0]), BPF_F_USER_STACK | BPF_F_USER_BUILD_ID);
	bool found = false;

	_Static_assert(sizeof(struct crash_event_frame) == sizeof(struct bpf_stack_build_id),
		       "a frame is what the kernel writes");
	*n = bytes > 0 ? bytes / sizeof(frames[0]) : 0;
	for (int i = 0; i < CRASH_FRAMES; i++) {
		if (frames[i].kind == STACK_ADDRESS)
			frames[i].kind = CRASH_FRAME_NONE;
		else if (frames[i].kind == CRASH_FRAME_BUILD_ID)
			found = true;
	}
	return found;
}

static __always_inline __u32 pid_inside(struct pid *pid)
{
	__u32 level = BPF_CORE_READ(pid, level);
	const char *numbers = (const char *)pid + bpf_core_field_offset(struct pid, numbers);
	int nr = 0;

	/* numbers[] is as long as the pid's namespaces are deep, at most 32; its elements are larger than we know them. */
	bpf_probe_read_kernel(&nr, sizeof(nr),
			      numbers + (level & 31) * bpf_core_type_size(struct upid) +
				  bpf_core_field_offset(struct upid, nr));
	return nr;
}

static __always_inline void read_process(struct crash_event *e)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();

	e->head.tgid = task->tgid;
	e->head.tid = task->pid;
	e->tgid_inside = pid_inside(BPF_CORE_READ(task, group_leader, thread_pid));
	e->tid_inside = pid_inside(BPF_CORE_READ(task, thread_pid));
	e->uid = bpf_get_current_uid_gid();
	e->code_begin = BPF_CORE_READ(task, mm, start_code);
	e->code_end = BPF_CORE_READ(task, mm, end_code);
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}
