/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel types that the programs touch, with only the fields that they touch. Offsets come from the running
 * kernel's BTF at load (CO-RE), so a build needs no kernel headers and no vmlinux.h.
 * A field or type that was renamed gets one helper below its declaration, with the kernel commit or version.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifndef __bpf__
#error "for BPF programs only"
#endif

typedef _Bool bool;
enum { false = 0, true = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long si, dx, cx, ip, sp, cs, orig_ax;
};
struct thread_info {
	unsigned int status;
};
struct thread_struct {
	unsigned long trap_nr, error_code;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 sp, pc, pstate;
	int syscallno;
};
struct thread_info {
	unsigned long flags;
};
struct thread_struct {
	unsigned long fault_code;
};
#else
#error "which registers does this architecture have?"
#endif

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

/* Its values depend on the kernel's configuration: to be asked for by bpf_core_enum_value(). */
enum cgroup_subsys_id { memory_cgrp_id };

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct qstr {
	__u32 len;
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file {
	struct path f_path;
};

struct vm_area_struct {
	unsigned long vm_start, vm_pgoff;
	struct file *vm_file;
};

struct mm_struct {
	struct file *exe_file;
	unsigned long start_code, end_code;
};

struct signal_struct {
	unsigned int flags;
	int group_exit_code;
};

struct task_struct {
	struct thread_info thread_info;
	struct css_set *cgroups;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct pid *thread_pid;
	unsigned long sas_ss_sp, sas_ss_size;
	int pid, tgid;
	struct thread_struct thread;
};

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

union __sifields {
	struct {
		int _pid;
	} _kill;
	struct {
		void *_addr;
	} _sigfault;
};

struct kernel_siginfo {
	int si_code;
	union __sifields _sifields;
};

#pragma clang attribute pop
