/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page faults and bad accesses as records, by BPF programs of their own that know nothing of the daemon's. Of
 * `faultctl`, the only file that sees libbpf. The programs go with the object.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/trace_abi.h"

struct trace_probe;

struct trace_probe_options {
	uint32_t only_tgid;    /* 0: all processes; as the host sees it */
	const char *only_comm; /* NULL: any; the kernel keeps 15 bytes, so no more are compared */
	bool by_cgroup;        /* only those that trace_probe_cgroup() wants */
	bool user, kernel, bad;
	bool by_abort; /* as trace_probe_offers() says */
	/* > 0: records per second, CPU and kind (page fault, bad access); as many at once. Those of cgroups without a
	 * verdict have a limit of their own. */
	uint32_t rate;
};

/* Why something cannot be used and what would make it so, for people. */
struct trace_reason {
	char text[512];
};

/* What this kernel offers, by its type information and, for page faults without tracepoints, a program attached for a moment.
 * -ENOENT with a reason if it has no type information. */
struct trace_offer {
	bool page_faults, bad_accesses;
	bool by_abort; /* page faults come from arm64's do_mem_abort */
};
int trace_probe_offers(struct trace_offer *ret, struct trace_reason *reason);

/* Opens and loads. On failure `reason` says why: -EPERM and -EACCES not permitted, -ENOMEM, other. */
int trace_probe_new(const struct trace_probe_options *options, struct trace_probe **ret, struct trace_reason *reason);
/* Accepts NULL, returns NULL. */
struct trace_probe *trace_probe_free(struct trace_probe *p);
/* Attaches, once the cgroups have their verdicts. As trace_probe_new() on failure. */
int trace_probe_start(struct trace_probe *p, struct trace_reason *reason);
/* Detaches; what is in the ring can still be read, and the counts. */
void trace_probe_stop(struct trace_probe *p);

/* Readable when there are records. */
int trace_probe_fd(const struct trace_probe *p);
/* Hands at most `max` records to `record`, oldest first. The number of records, -errno. */
typedef void (*trace_record_fn)(const struct trace_record *record, void *userdata);
int trace_probe_read(struct trace_probe *p, unsigned max, trace_record_fn record, void *userdata);

/* Whether records of that cgroup are wanted. Those of cgroups without a verdict come with TRACE_CHECK_CGROUP. 0,
 * -errno: -E2BIG if there is no room for more verdicts. */
int trace_probe_cgroup(struct trace_probe *p, uint64_t id, bool wanted);
void trace_probe_forget_cgroup(struct trace_probe *p, uint64_t id);

/* Since the start. */
struct trace_counts {
	uint64_t left_out; /* beyond the rate */
	uint64_t unjudged; /* the same, of cgroups without a verdict: wanted or not */
	uint64_t lost;     /* the ring was full */
	uint64_t missed; /* events of any process, wanted or not, that came while the program was at work on that CPU */
};
void trace_probe_counts(const struct trace_probe *p, struct trace_counts *ret);
