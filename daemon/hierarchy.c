/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/hierarchy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"

/* Not stored if it cannot be read: then it says nothing. */
static void read_membership(const char *proc, const char *process, struct cgroup_membership *ret)
{
	auto_free char *file = NULL;

	if (asprintf(&file, "%s/%s/cgroup", proc, process) < 0)
		file = NULL; /* undefined after a failure */
	else
		(void)cgroup_membership_read(file, ret);
}

static void take_v2(const struct cgroup_mounts *mounts, const char *why, struct hierarchy *ret)
{
	*ret = (struct hierarchy){.mount = mounts->v2};
	snprintf(ret->text, sizeof(ret->text), "those of v2 (%s): %s", mounts->v2 ? mounts->v2 : "not mounted", why);
}

static int take_memory(const struct cgroup_mounts *mounts, const char *proc, const char *why, struct hierarchy *ret)
{
	struct cgroup_membership self cleanup(cgroup_membership_done) = {0};

	if (mounts->memory)
		read_membership(proc, "self", &self);
	*ret = (struct hierarchy){.memory = true, .id = self.memory_hierarchy, .mount = mounts->memory};
	if (!self.memory_hierarchy) {
		snprintf(ret->text, sizeof(ret->text), "those of v1's memory controller cannot be had: %s",
			 mounts->memory ? "its hierarchy is not in /proc/self/cgroup" : "it is not mounted");
		return ret->error = -ENOENT;
	}
	snprintf(ret->text, sizeof(ret->text), "those of v1's memory controller (%s): %s", mounts->memory, why);
	return 0;
}

/* Why v2 is in use, NULL if it is not. */
static const char *v2_use(const struct cgroup_mounts *mounts, const char *proc)
{
	struct cgroup_membership self cleanup(cgroup_membership_done) = {0};
	struct cgroup_membership init cleanup(cgroup_membership_done) = {0};

	if (!mounts->v2)
		return NULL;
	if (mounts->v2_below)
		return "in use, this is below its root";
	read_membership(proc, "1", &init);
	if (init.v2 && strcmp(init.v2, "/") != 0)
		return "in use, process 1 is not in its root";
	read_membership(proc, "self", &self);
	return self.v2 && strcmp(self.v2, "/") != 0 ? "in use, faultd is not in its root" : NULL;
}

static void choose(const struct cgroup_mounts *mounts, const char *proc, struct hierarchy *ret)
{
	const char *use = v2_use(mounts, proc);

	if (!mounts->memory)
		take_v2(mounts, "v1's memory controller is not mounted", ret);
	else if (use)
		take_v2(mounts, use, ret);
	else if (take_memory(mounts, proc,
			     mounts->v2 ? "v2 is not in use, process 1 and faultd are in its root"
					: "v2 is not mounted",
			     ret) < 0)
		take_v2(mounts, "v1's memory controller has no hierarchy", ret);
}

int hierarchy_choose(enum config_hierarchy wanted, const struct cgroup_mounts *mounts, const char *proc,
		     struct hierarchy *ret)
{
	switch (wanted) {
	case CONFIG_HIERARCHY_V2:
		take_v2(mounts, "as cgroups.hierarchy says", ret);
		break;
	case CONFIG_HIERARCHY_MEMORY:
		return take_memory(mounts, proc, "as cgroups.hierarchy says", ret);
	case CONFIG_HIERARCHY_AUTO:
		choose(mounts, proc, ret);
		break;
	}
	return 0;
}

void hierarchy_follow_memory(struct hierarchy *h, const struct cgroup_mounts *mounts, const char *proc)
{
	if (!h->memory)
		(void)take_memory(mounts, proc, "page faults come from its memory.stat", h);
}
