/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the host's cgroup hierarchies the counts are told apart by. Ids and paths are per hierarchy, so there is one for all: the
 * programs, births and deaths, and names. Belongs to the pipeline.
 *
 * v2 where v1 has no memory controller. Where it has, v2 if somebody keeps processes in it: then process 1 or this one is not in its
 * root (systemd's hybrid mode has all its units there). Else v1's memory controller (RHEL 8, Amazon Linux 2, and such hosts on which some
 * network program has v2 mounted for itself): all that is in one cgroup of v2 there. Only the two processes are asked since they stay
 * where they are: the answer shall not depend on what happens to run when the daemon starts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "daemon/source/cgroup.h"

struct hierarchy {
	bool memory;       /* the v1 memory controller's, else v2 */
	uint32_t id;       /* as the kernel numbers hierarchies; 0: v2, or not known */
	const char *mount; /* where it is mounted, borrowed from the mounts; NULL if nowhere */
	int error;         /* 0, or -ENOENT: what was asked for is not there */
	char text[384];    /* which it is and why, or why it cannot be had, for people */
};

/* `proc` is where that is mounted. Returns the error. *ret is always filled. Logs nothing. */
int hierarchy_choose(enum config_hierarchy wanted, const struct cgroup_mounts *mounts, const char *proc,
		     struct hierarchy *ret);
/* Page faults come from the memory controller of v1: whatever was chosen, ids must be of its hierarchy. */
void hierarchy_follow_memory(struct hierarchy *h, const struct cgroup_mounts *mounts, const char *proc);
