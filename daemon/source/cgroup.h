/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of cgroups: from a kernel id to a path, in one hierarchy, for as long as anybody may ask.
 *
 * A name comes from, in this order: a birth that was announced (cgroup_names_born), the file handle of the id
 * (open_by_handle_at, needs CAP_DAC_READ_SEARCH), a walk of the mounted tree. Birth records are kept after the cgroup's death
 * until cgroup_names_forget(), so that a cgroup that lived for 10 ms is named.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cgroup_names;

/* `mount` is where the hierarchy is mounted, e.g. "/sys/fs/cgroup". `capacity` bounds the names kept; beyond it names of dead
 * cgroups go first, then the oldest: they can be found again by the other ways. -ENOMEM, -ENOENT, -ENOTDIR. */
int cgroup_names_new(const char *mount, size_t capacity, struct cgroup_names **ret);
struct cgroup_names *cgroup_names_free(struct cgroup_names *n);

/* `path` need not be NUL-terminated; `cut` says that the kernel may have cut it: then it is looked up instead. Where only a part of
 * the hierarchy is mounted (a cgroup namespace) the kernel's path begins at the real root: where the part begins is learnt from the
 * first birth within it that can be looked up when it is heard, when the next one is or when a name is; until then, births are
 * looked up, too. */
void cgroup_names_born(struct cgroup_names *n, uint64_t id, const char *path, size_t len, int cut);
/* The cgroup has the new path from now on (v1 only), and so have all below it: their kept names follow, or are dropped if it cannot be
 * told which those are, to be looked up again. `changed` is called for each of these, `id` not included. */
void cgroup_names_renamed(struct cgroup_names *n, uint64_t id, const char *path, size_t len, int cut,
			  void (*changed)(uint64_t id, void *userdata), void *userdata);
void cgroup_names_died(struct cgroup_names *n, uint64_t id);
void cgroup_names_forget(struct cgroup_names *n, uint64_t id);

/* The path of `id`, raw bytes, "/" for the root; caller frees. -ENOENT if no way leads to it. A walk happens at most once per
 * second of `now_ns` (monotonic), so that unknown ids cannot make it the loop's main work. */
int cgroup_names_find(struct cgroup_names *n, uint64_t id, uint64_t now_ns, char **ret);
/* 1 if the cgroup exists, 0 if not, -errno if it cannot be told. */
int cgroup_names_alive(struct cgroup_names *n, uint64_t id);

/* Visits all cgroups of the tree, parents before children: id and path. The callback's non-zero return ends the walk and is
 * returned. */
int cgroup_names_walk(struct cgroup_names *n, int (*visit)(uint64_t id, const char *path, void *userdata),
		      void *userdata);

/* Where the cgroup hierarchies are, from /proc/self/mountinfo (or another file of that form). Strings are owned. */
struct cgroup_mounts {
	char *v2;      /* mount point of the v2 hierarchy, NULL if none */
	char *memory;  /* mount point of the v1 memory controller, NULL if none */
	int v2_memory; /* the v2 root offers the memory controller */
	int v2_below;  /* what is mounted of v2, or this process' cgroup namespace, begins below its root */
};
int cgroup_mounts_read(const char *mountinfo, struct cgroup_mounts *ret);
void cgroup_mounts_done(struct cgroup_mounts *m);

/* Where a process is, from /proc/PID/cgroup (or another file of that form). The string is owned. */
struct cgroup_membership {
	char *v2; /* its path in the v2 hierarchy as the reader's cgroup namespace has it; NULL if none */
	uint32_t
	    memory_hierarchy; /* the kernel's id of the v1 hierarchy with the memory controller, 0 if none has it */
};
/* 0 or -errno. */
int cgroup_membership_read(const char *proc_cgroup, struct cgroup_membership *ret);
void cgroup_membership_done(struct cgroup_membership *m);
