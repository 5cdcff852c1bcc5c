/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "daemon/source/probe_state.h"

static int on_life_record(void *userdata, void *data, size_t size)
{
	struct probe *p = userdata;
	const struct cgroup_event *event = data;
	const struct probe_life_handlers *h = p->life_ring.handlers;
	size_t len;
	bool cut;

	if (size >= offsetof(struct cgroup_event, path)) {
		len = event->path_len;
		if (len > size - offsetof(struct cgroup_event, path))
			len = size - offsetof(struct cgroup_event, path);
		cut = len >= CGROUP_PATH_BYTES - 1;
		if (event->type == CGROUP_BORN)
			h->born(event->id, event->path, len, cut, h->userdata);
		else if (event->type == CGROUP_DIED)
			h->died(event->id, h->userdata);
		else if (event->type == CGROUP_RENAMED)
			h->renamed(event->id, event->path, len, cut, h->userdata);
	}
	return probe_ring_next(&p->life_ring);
}

int probe_life_fd(const struct probe *p)
{
	return probe_ring_fd(&p->life_ring);
}

int probe_life_dispatch(struct probe *p, const struct probe_life_handlers *handlers, unsigned max)
{
	return probe_ring_dispatch(&p->life_ring, handlers, max);
}

int probe_life_start(struct probe *p, const struct probe_options *options)
{
	struct cgroup_life_bpf *l;
	int r;

	p->life = l = cgroup_life_bpf__open();
	if (!l)
		return -errno;
	l->rodata->hierarchy_id = options->memory_hierarchy;
	r = bpf_map__set_max_entries(l->maps.cgroup_ring, LIFE_RING_BYTES);
	if (r == 0)
		r = bpf_map__reuse_fd(l->maps.drops, bpf_map__fd(p->faults->maps.drops));
	if (r == 0)
		r = cgroup_life_bpf__load(l);
	if (r == 0)
		r = probe_ring_open(&p->life_ring, l->maps.cgroup_ring, on_life_record, p);
	return r < 0 ? r : cgroup_life_bpf__attach(l);
}

void probe_life_stop(struct probe *p)
{
	probe_ring_close(&p->life_ring);
	cgroup_life_bpf__destroy(p->life);
	p->life = NULL;
}
