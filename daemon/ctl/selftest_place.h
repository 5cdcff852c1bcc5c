/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cgroups for the cases, in the v2 hierarchy: below the caller's own one, or else at the mount's root. Where v1's memory controller is
 * mounted, too, each has a twin of the same path there if that can be, and the case is in both: whichever of the two the daemon tells
 * cgroups apart by, it has that name. Where v2 is not mounted it is v1's alone.
 */
#pragma once

#include "daemon/base/strbuf.h"

struct selftest_place {
	char *dir;  /* folder in which cgroups can be made; NULL if none can, see `reason` */
	char *path; /* the same as the daemon names it, "" for the root */
	char *twin; /* folder of the same path in v1's hierarchy; NULL if none */
	char *own;  /* the caller's own cgroup as the daemon names it; NULL if that is not known */
	struct strbuf reason;
};

struct selftest_cgroup {
	char *dir;
	char *twin; /* NULL if none */
	char *path; /* as the daemon names it */
	int procs;  /* cgroup.procs, for writing */
};

/* Finds out by making one, with a process within. Returns 0, also if there is no such place, or -errno. */
int selftest_place_find(struct selftest_place *ret);
void selftest_place_done(struct selftest_place *place);

/* Returns 0 or -errno. */
int selftest_cgroup_make(const struct selftest_place *place, const char *name, struct selftest_cgroup *ret);
/* By the process that shall be in it. 0 or -errno. */
int selftest_cgroup_enter(const struct selftest_cgroup *cgroup);
/* Ends what may be left in it and removes it; 0 or -errno. Accepts one that was not made ({.procs = -EBADF}). */
int selftest_cgroup_remove(struct selftest_cgroup *cgroup);
