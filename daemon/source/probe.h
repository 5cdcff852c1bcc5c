/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact counters of page faults and bad accesses per cgroup, kept in the kernel by BPF programs. The only module that sees libbpf.
 *
 * The programs count for whatever cgroup faults; the owner of this object gives names, folds what it does not want to
 * see on its own, and releases what died. Counters are read from mapped memory, without a system call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/bad_access_abi.h"
#include "bpf/fault_abi.h"
#include "daemon/model/growth.h"

struct probe;

/* The ways to see page faults, best first; each counts into the same cells. */
enum probe_backend { PROBE_TRACEPOINT, PROBE_FENTRY, PROBE_PERF, PROBE_NONE, PROBE_BACKENDS };

struct probe_options {
	enum probe_backend backend;
	uint32_t max_cgroups; /* that shall have counters of their own at once */
	uint32_t
	    memory_hierarchy; /* id of the v1 hierarchy whose cgroups are counted, that of the memory controller; 0: v2 */
	uint64_t memory_bytes; /* bound for the counters; fewer cgroups get their own if it does not suffice */
	uint32_t perf_period;  /* of PROBE_PERF: one in so many faults is seen and stands for all of them; at least 1 */
	uint32_t bad_signals;  /* bits 1 << enum bad_signal: whose deliveries are counted; 0: none */
	bool bad_latency;      /* and how long they took, if the kernel has the page-fault tracepoints */
};

/* Why something cannot be used and what would make it so, for people. */
struct probe_reason {
	char text[512];
};

/* Opens, loads and attaches. Bad accesses that cannot be counted are no failure if page faults can; see probe_bad_refusal(). On failure `reason` says why: -ENOENT the kernel lacks it, -EPERM not permitted, -ENOMEM,
 * other. */
int probe_new(const struct probe_options *options, struct probe **ret, struct probe_reason *reason);
/* Detaches; the counters are gone. Accepts NULL, returns NULL. */
struct probe *probe_free(struct probe *p);

/* Attaching again and off, for measurements; a new probe is attached. */
int probe_attach(struct probe *p);
void probe_detach(struct probe *p);

struct probe_size {
	uint32_t slots; /* counters' slots, slot 0 included */
	uint32_t used;
	uint32_t cpus;
	uint64_t memory_bytes; /* of all maps, as the kernel allocates them */
	uint32_t max_ids;      /* cgroups that can be known to the programs, folded ones included */
	bool cut;              /* memory_bytes of the options made it smaller than asked */
};
void probe_size(const struct probe *p, struct probe_size *ret);

/* Why bad accesses are not counted, for people; NULL if they are. */
const char *probe_bad_refusal(const struct probe *p);
/* Whether the times of bad accesses are measured. */
bool probe_has_latency(const struct probe *p);

/* `growth` since the last call, for cgroup `id`, or 0 for all that have no slot. A cgroup may come twice. */
typedef void (*probe_growth_fn)(uint64_t id, const struct growth *growth, void *userdata);
/* Reads what was counted. Cells in use are read, not all of them; a count can be seen one call late, never lost. */
void probe_collect(struct probe *p, probe_growth_fn growth, void *userdata);

/* Begins to take a slot back: of a cgroup that died, or of one that shall count as other from now on. 1 if it had a
 * slot: probe_reclaim() will tell when it has drained; 0 if it had none; -errno. */
int probe_release(struct probe *p, uint64_t id);
int probe_fold(struct probe *p, uint64_t id);
/* Lets a folded cgroup claim a slot again at its next fault. */
int probe_unfold(struct probe *p, uint64_t id);
/* Upkeep, and second half of release and fold: call once an interval after a collect, at least 100 ms apart. Slots that no program
 * can be using any more give up their last counts through `growth`, then `drained` (their id has counted all it will),
 * and are free. */
void probe_reclaim(struct probe *p, probe_growth_fn growth, void (*drained)(uint64_t id, void *userdata),
		   void *userdata);

struct probe_life_handlers {
	void (*born)(uint64_t id, const char *path, size_t len, bool cut, void *userdata);
	void (*died)(uint64_t id, void *userdata);
	void (*renamed)(uint64_t id, const char *path, size_t len, bool cut, void *userdata);
	void *userdata;
};
/* Readable when cgroups were born or died; -EBADF if the kernel offers no such records. */
int probe_life_fd(const struct probe *p);
/* Handles at most `max` records. Returns the number handled. */
int probe_life_dispatch(struct probe *p, const struct probe_life_handlers *handlers, unsigned max);

struct probe_crash_handlers {
	void (*crashed)(const struct crash_event *event, void *userdata);
	void (*exited)(const struct crash_exit_event *event, void *userdata);
	void *userdata;
};
/* Readable when there are records of fatal bad accesses; -EBADF if they are not counted. */
int probe_crash_fd(const struct probe *p);
/* Handles at most `max` records. Returns the number handled. */
int probe_crash_dispatch(struct probe *p, const struct probe_crash_handlers *handlers, unsigned max);

struct probe_stats {
	uint64_t drops[FAULT_DROPS];
	uint64_t recursion_misses;
	uint64_t cpu_gaps;     /* of PROBE_PERF: CPUs that came online, whose faults until probe_reclaim() are lost */
	uint64_t run_ns, runs; /* 0 unless kernel.bpf_stats_enabled is set */
};
void probe_stats(const struct probe *p, struct probe_stats *ret);
