/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the probe is made of, for the files that work on it: probe.c counts page faults and owns the slots, probe_bad.c counts bad
 * accesses in the same slots, probe_life.c hears of cgroups.
 */
#pragma once

#include <bpf/libbpf.h>

#include "bpf/bad_access_abi.h"
#include "bpf/fault_abi.h"

/* The skeletons know the types of the ABI by name only. */
#include "bpf/bad_access.skel.h"
#include "bpf/cgroup_life.skel.h"
#include "bpf/page_fault.skel.h"
#include "daemon/source/probe.h"
#include "daemon/source/slots.h"

struct mapping {
	void *data;
	size_t bytes;
};

/* A ring of records that is read a bounded number at a time. */
struct probe_ring {
	struct ring_buffer *ring;
	const void *handlers; /* during a dispatch */
	unsigned handled, handle_max;
};

/* Of PROBE_PERF, with its program. Its end is that of its descriptor; a link would need 5.15. */
struct perf_event {
	int fd;             /* negative: the CPU is not online */
	int64_t enabled_ns; /* when last looked at; -1: never */
	bool failed;        /* the CPU is online, but the kernel refuses the event */
};

struct probe {
	struct page_fault_bpf *faults; /* its maps are there even if its programs are not loaded */
	struct bad_access_bpf *bad;    /* NULL: not usable, see bad_reason */
	struct cgroup_life_bpf *life;  /* NULL: not usable */
	struct probe_ring life_ring, crash_ring;
	struct probe_reason bad_reason;

	enum probe_backend backend;
	bool counts_faults, latency;
	bool by_memory; /* by the cgroups of v1's memory controller */
	uint32_t perf_period;
	uint64_t esr_mask;
	uint32_t cpus, slots, max_ids;
	bool cut;
	uint64_t memory_bytes;
	struct perf_event *perf_events; /* [cpus]; NULL unless attached with PROBE_PERF */
	uint64_t perf_gaps;
	struct mapping cells, owner, touched, drops;
	struct mapping bad_cells, bad_touched, bad_latency;
	struct slots *book;
};

#define CRASH_RING_BYTES (256 * 1024)
#define LIFE_RING_BYTES (128 * 1024)

/* Fills in the reason and returns `error`. */
int probe_explain(int error, const char *what, struct probe_reason *reason);
int probe_map_memory(struct bpf_map *map, struct mapping *ret);
void probe_unmap_memory(struct mapping *m);

/* `record` handles one; call probe_ring_next() at its end and return what that returns. -errno. */
int probe_ring_open(struct probe_ring *r, struct bpf_map *map, ring_buffer_sample_fn record, void *userdata);
int probe_ring_next(struct probe_ring *r);
int probe_ring_dispatch(struct probe_ring *r, const void *handlers, unsigned max);
int probe_ring_fd(const struct probe_ring *r);
void probe_ring_close(struct probe_ring *r);

/* 0, or -errno and nothing is left behind; p->bad_reason says why. */
int probe_bad_start(struct probe *p, const struct probe_options *options);
/* -errno; p->bad_reason says why. */
int probe_bad_attach(struct probe *p);
void probe_bad_detach(struct probe *p);
void probe_bad_stop(struct probe *p);

/* Events on all CPUs that are online, with the program. -errno and the reason; then nothing is left behind. */
int probe_perf_attach(struct probe *p, struct probe_reason *reason);
/* Follows CPUs that came online or went. */
void probe_perf_refresh(struct probe *p);
void probe_perf_detach(struct probe *p);

int probe_life_start(struct probe *p, const struct probe_options *options);
void probe_life_stop(struct probe *p);
