/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/trace_cgroups.h"

#include <errno.h>
#include <stdlib.h>

#include "bpf/trace_abi.h"
#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/glob.h"
#include "daemon/base/table.h"
#include "daemon/source/cgroup.h"

#define NAMES_MAX 4096
/* Walks take at most this share of the time. */
#define WALK_SHARE 20

struct judged {
	bool wanted;
	uint64_t seen; /* number of the last walk that met it */
};

struct trace_cgroups {
	const char *glob;
	struct trace_cgroups_ops ops;
	struct cgroup_names *names;
	struct table *judged; /* id to struct judged; NULL without a glob */
	uint64_t walks, walk_ns;
	unsigned wanted;
	char *name; /* handed out last */
};

DEFINE_CLEANUP(cgroups_done, struct trace_cgroups *, trace_cgroups_free)

static void free_judged(uint64_t id, void *value, void *userdata)
{
	free(value);
}

struct trace_cgroups *trace_cgroups_free(struct trace_cgroups *c)
{
	if (!c)
		return NULL;
	if (c->judged)
		table_visit(c->judged, free_judged, NULL);
	table_free(c->judged);
	cgroup_names_free(c->names);
	free(c->name);
	free(c);
	return NULL;
}

int trace_cgroups_new(const char *mountinfo, const char *glob, const struct trace_cgroups_ops *ops,
		      struct trace_cgroups **ret)
{
	struct cgroup_mounts mounts cleanup(cgroup_mounts_done) = {0};
	struct trace_cgroups *c cleanup(cgroups_done) = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->glob = glob;
	c->ops = *ops;
	r = cgroup_mounts_read(mountinfo, &mounts);
	if (r == 0 && !mounts.v2)
		r = -ENOENT;
	if (r == 0)
		r = cgroup_names_new(mounts.v2, NAMES_MAX, &c->names);
	if (r == 0 && glob)
		r = table_new(TRACE_CGROUPS_MAX, &c->judged);
	if (r < 0)
		return r;
	*ret = take_ptr(c);
	return 0;
}

/* Those that there is no room for stay without a verdict and are judged again by each record. */
static bool judge(struct trace_cgroups *c, uint64_t id, const char *path)
{
	struct judged *j = calloc(1, sizeof(*j));
	bool wanted = glob_match(c->glob, path);

	if (!j || table_put(c->judged, id, j) < 0) {
		free(j);
		return wanted;
	}
	*j = (struct judged){.wanted = wanted, .seen = c->walks};
	c->ops.verdict(id, wanted, c->ops.userdata);
	return wanted;
}

static int meet(uint64_t id, const char *path, void *userdata)
{
	struct trace_cgroups *c = userdata;
	struct judged *j = table_get(c->judged, id);

	if (j)
		j->seen = c->walks;
	c->wanted += j ? j->wanted : judge(c, id, path);
	return 0;
}

static void drop_unseen(uint64_t id, void *value, void *userdata)
{
	struct trace_cgroups *c = userdata;
	struct judged *j = value;

	if (j->seen == c->walks)
		return;
	table_remove(c->judged, id);
	free(j);
	c->ops.forget(id, c->ops.userdata);
}

int trace_cgroups_refresh(struct trace_cgroups *c)
{
	uint64_t began_ns = clock_monotonic_ns();
	int r;

	if (!c->judged)
		return 0;
	c->walks++;
	c->wanted = 0;
	r = cgroup_names_walk(c->names, meet, c);
	c->walk_ns = clock_monotonic_ns() - began_ns;
	if (r < 0)
		return r;
	table_visit(c->judged, drop_unseen, c);
	return (int)c->wanted;
}

uint64_t trace_cgroups_pause_ns(const struct trace_cgroups *c)
{
	return c->walk_ns * WALK_SHARE > NSEC_PER_SEC ? c->walk_ns * WALK_SHARE : NSEC_PER_SEC;
}

const char *trace_cgroups_name(struct trace_cgroups *c, uint64_t id, uint64_t now_ns)
{
	char *name = NULL;

	if (cgroup_names_find(c->names, id, now_ns, &name) < 0)
		return NULL;
	free(c->name);
	c->name = name;
	return name;
}

bool trace_cgroups_wanted(struct trace_cgroups *c, uint64_t id, uint64_t now_ns)
{
	struct judged *j = c->judged ? table_get(c->judged, id) : NULL;
	const char *path;

	if (!c->judged)
		return true;
	if (j)
		return j->wanted;
	path = trace_cgroups_name(c, id, now_ns);
	return path && judge(c, id, path);
}
