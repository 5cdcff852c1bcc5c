/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over a tree of cgroups. Private to the module cgroup. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cgroup_walk_stats {
	size_t visited;
	size_t too_deep;   /* left out, with all below */
	size_t unreadable; /* children not known */
};

/* Visits the folder and all below, parents before children: inode number and path, "/" for the first. The callback's non-zero return
 * ends the walk and is returned; -ENOMEM. `ret` may be NULL. */
int cgroup_walk(int root_fd, int (*visit)(uint64_t id, const char *path, void *userdata), void *userdata,
		struct cgroup_walk_stats *ret);
