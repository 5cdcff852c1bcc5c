/* SPDX-License-Identifier: Apache-2.0 */
#include <bpf/btf.h>
#include <errno.h>

#include "daemon/source/probe_state.h"

static int on_crash_record(void *userdata, void *data, size_t size)
{
	struct probe *p = userdata;
	const struct crash_head *head = data;
	const struct probe_crash_handlers *h = p->crash_ring.handlers;

	if (size >= sizeof(struct crash_event) && head->type == CRASH_DELIVERED)
		h->crashed(data, h->userdata);
	else if (size >= sizeof(struct crash_exit_event) && head->type == CRASH_EXITED)
		h->exited(data, h->userdata);
	return probe_ring_next(&p->crash_ring);
}

int probe_crash_fd(const struct probe *p)
{
	return probe_ring_fd(&p->crash_ring);
}

int probe_crash_dispatch(struct probe *p, const struct probe_crash_handlers *handlers, unsigned max)
{
	return probe_ring_dispatch(&p->crash_ring, handlers, max);
}

const char *probe_bad_refusal(const struct probe *p)
{
	return p->bad_reason.text[0] ? p->bad_reason.text : NULL;
}

bool probe_has_latency(const struct probe *p)
{
	return p->latency && !probe_bad_refusal(p);
}

static int share_maps(struct probe *p)
{
	const struct {
		struct bpf_map *map, *with;
	} shared[] = {
	    {p->bad->maps.drops, p->faults->maps.drops},
	    {p->bad->maps.slot_owner, p->faults->maps.slot_owner},
	    {p->bad->maps.slot_by_cgroup, p->faults->maps.slot_by_cgroup},
	    {p->bad->maps.free_slots, p->faults->maps.free_slots},
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(shared) / sizeof(shared[0]); i++)
		r = bpf_map__reuse_fd(shared[i].map, bpf_map__fd(shared[i].with));
	return r;
}

static int size_maps(struct probe *p)
{
	int r = bpf_map__set_max_entries(p->bad->maps.crash_ring, CRASH_RING_BYTES);

	if (r == 0)
		r = bpf_map__set_max_entries(p->bad->maps.bad_cells, p->slots);
	if (r == 0)
		r = bpf_map__set_max_entries(p->bad->maps.bad_touched, FAULT_TOUCHED_WORDS(p->slots));
	if (r == 0 && p->latency)
		r = bpf_map__set_max_entries(p->bad->maps.bad_latency, p->slots);
	return r;
}

static int load(struct probe *p, const struct probe_options *options)
{
	int r;

	p->bad = bad_access_bpf__open();
	if (!p->bad)
		return -errno;
	p->bad->rodata->signals = options->bad_signals;
	p->bad->rodata->with_latency = p->latency;
	p->bad->rodata->memory_hierarchy = options->memory_hierarchy != 0;
	if (!p->latency)
		bpf_program__set_autoload(p->bad->progs.bad_faulted, false);
	r = size_maps(p);
	if (r == 0)
		r = share_maps(p);
	if (r == 0)
		r = bad_access_bpf__load(p->bad);
	if (r == 0)
		r = probe_map_memory(p->bad->maps.bad_cells, &p->bad_cells);
	if (r == 0)
		r = probe_map_memory(p->bad->maps.bad_touched, &p->bad_touched);
	if (r == 0 && p->latency)
		r = probe_map_memory(p->bad->maps.bad_latency, &p->bad_latency);
	return r < 0 ? r : probe_ring_open(&p->crash_ring, p->bad->maps.crash_ring, on_crash_record, p);
}

int probe_bad_start(struct probe *p, const struct probe_options *options)
{
	int r;

	if (!options->bad_signals) {
		snprintf(p->bad_reason.text, sizeof(p->bad_reason.text), "not asked for");
		return -ENOENT;
	}
	r = load(p, options);
	if (r < 0) {
		probe_explain(r, "the kernel refuses the programs at the signal tracepoints", &p->bad_reason);
		probe_bad_stop(p);
	}
	return r;
}

int probe_bad_attach(struct probe *p)
{
	int r = bad_access_bpf__attach(p->bad);

	if (r < 0)
		probe_explain(r, "the kernel refuses to attach the programs at the signal tracepoints", &p->bad_reason);
	return r;
}

void probe_bad_detach(struct probe *p)
{
	bad_access_bpf__detach(p->bad);
}

void probe_bad_stop(struct probe *p)
{
	probe_ring_close(&p->crash_ring);
	probe_unmap_memory(&p->bad_cells);
	probe_unmap_memory(&p->bad_touched);
	probe_unmap_memory(&p->bad_latency);
	bad_access_bpf__destroy(p->bad);
	p->bad = NULL;
}
