/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `faultctl trace --cgroup GLOB`: which cgroups of the v2 hierarchy are wanted, and the names of all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trace_cgroups;

/* Told of each verdict, and of each cgroup that is gone. */
struct trace_cgroups_ops {
	void (*verdict)(uint64_t id, bool wanted, void *userdata);
	void (*forget)(uint64_t id, void *userdata);
	void *userdata;
};

/* `glob` as the configuration's (daemon/base/glob.h), NULL: all are wanted, only names are asked for. `mountinfo`
 * tells where the hierarchy is. -ENOENT if it is mounted nowhere, -ENOMEM, -errno. */
int trace_cgroups_new(const char *mountinfo, const char *glob, const struct trace_cgroups_ops *ops,
		      struct trace_cgroups **ret);
struct trace_cgroups *trace_cgroups_free(struct trace_cgroups *c);

/* Walks the tree and gives verdicts on what is new. The number of cgroups that are wanted, -errno. */
int trace_cgroups_refresh(struct trace_cgroups *c);
/* How long to wait until the next one: a second, and more where a walk takes long. */
uint64_t trace_cgroups_pause_ns(const struct trace_cgroups *c);

/* The verdict on one cgroup, given at once if there is none; false if the cgroup cannot be found. */
bool trace_cgroups_wanted(struct trace_cgroups *c, uint64_t id, uint64_t now_ns);
/* Its path, NULL if it cannot be found. Valid until the next call. */
const char *trace_cgroups_name(struct trace_cgroups *c, uint64_t id, uint64_t now_ns);
