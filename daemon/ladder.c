/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ladder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/exit.h"

enum { RUNG_TRACEPOINT, RUNG_MEMCG };

static bool allowed(const struct config *config, int rung)
{
	switch (config->probes.page_faults) {
	case CONFIG_FAULTS_AUTO:
		return true;
	case CONFIG_FAULTS_TRACEPOINT:
		return rung == RUNG_TRACEPOINT;
	case CONFIG_FAULTS_MEMCG:
		return rung == RUNG_MEMCG;
	case CONFIG_FAULTS_OFF:
		return false;
	}
	return false;
}

static uint32_t bad_signals(const struct config *config)
{
	static const struct {
		enum config_signal bit;
		enum bad_signal signal;
	} also[] = {
	    {CONFIG_SIGNAL_ILL, BAD_ILL}, {CONFIG_SIGNAL_FPE, BAD_FPE},   {CONFIG_SIGNAL_TRAP, BAD_TRAP},
	    {CONFIG_SIGNAL_SYS, BAD_SYS}, {CONFIG_SIGNAL_ABRT, BAD_ABRT},
	};
	uint32_t signals = 1u << BAD_SEGV | 1u << BAD_BUS;

	for (size_t i = 0; i < ARRAY_SIZE(also); i++)
		if (config->bad_access.also & (uint32_t)also[i].bit)
			signals |= 1u << also[i].signal;
	return config->probes.bad_access ? signals : 0;
}

static struct probe_options probe_options(const struct config *config, const struct ladder *l,
					  enum probe_backend backend)
{
	return (struct probe_options){
	    .backend = backend,
	    .memory_hierarchy = l->hierarchy.id,
	    .max_cgroups = config->cgroups.max,
	    .memory_bytes = config->cgroups.memory_bytes,
	    .bad_signals = bad_signals(config),
	    .bad_latency = config->bad_access.latency,
	};
}

static int try_tracepoint(const struct config *config, struct ladder *l)
{
	struct probe_options options = probe_options(config, l, PROBE_TRACEPOINT);
	struct ladder_step *step = &l->steps[RUNG_TRACEPOINT];
	struct probe_reason reason = {0};
	struct probe_size size;
	int r = probe_new(&options, &l->probe, &reason);

	if (r < 0) {
		snprintf(step->text, sizeof(step->text), "%s", reason.text);
		return r;
	}
	probe_size(l->probe, &size);
	snprintf(step->text, sizeof(step->text),
		 "exact counts by mode, access and kind; %u slots on %u CPUs take %.1f MiB of kernel memory "
		 "(cgroups.memory allows "
		 "%.1f MiB)%s",
		 size.slots, size.cpus, (double)size.memory_bytes / (1 << 20),
		 (double)config->cgroups.memory_bytes / (1 << 20),
		 size.cut ? ": too little for cgroups.max, the cgroups beyond count as other" : "");
	return 0;
}

static int open_memcg(const struct config *config, const struct cgroup_mounts *mounts, struct ladder *l)
{
	size_t capacity = (size_t)config->cgroups.max * FAULT_HASH_FACTOR;

	if (mounts->v2_memory && !l->hierarchy.memory)
		return memcg_new(mounts->v2, MEMCG_V2, capacity, &l->memcg);
	if (mounts->memory && config->cgroups.hierarchy != CONFIG_HIERARCHY_V2)
		return memcg_new(mounts->memory, MEMCG_V1, capacity, &l->memcg);
	return -ENOENT;
}

static int try_memcg(struct ladder *l, int error)
{
	struct ladder_step *step = &l->steps[RUNG_MEMCG];

	if (error < 0)
		snprintf(step->text, sizeof(step->text),
			 "memory.stat: %s; the memory controller must be enabled and mounted (kernel option "
			 "CONFIG_MEMCG, boot "
			 "parameter cgroup_enable=memory)",
			 error == -ENOENT ? "no memory controller" : strerror(-error));
	else
		snprintf(step->text, sizeof(step->text),
			 "totals per cgroup only, no mode, access or kind, up to seconds late");
	l->memcg_counts_faults = error == 0;
	return error;
}

static int climb(const struct config *config, const struct cgroup_mounts *mounts, struct ladder *l, int memcg_error)
{
	int error = config->probes.page_faults == CONFIG_FAULTS_OFF ? 0 : -ENOENT;

	for (int rung = 0; rung < LADDER_RUNGS; rung++) {
		struct ladder_step *step = &l->steps[rung];

		if (!allowed(config, rung)) {
			snprintf(step->text, sizeof(step->text), "not asked for by probes.page_faults");
			continue;
		}
		step->tried = true;
		step->error = rung == RUNG_TRACEPOINT ? try_tracepoint(config, l) : try_memcg(l, memcg_error);
		if (step->error == 0) {
			l->page_faults = step->rung;
			for (int below = rung + 1; below < LADDER_RUNGS; below++)
				snprintf(l->steps[below].text, sizeof(step->text), "not needed");
			return 0;
		}
		if (step->error == -EPERM || step->error == -EACCES || error == -ENOENT)
			error = step->error;
	}
	return error;
}

/* Bad accesses go into the probe that counts page faults, or into one of their own where nothing or memory.stat does. */
static int try_bad_access(const struct config *config, struct ladder *l, struct probe_reason *reason)
{
	struct probe_options options = probe_options(config, l, PROBE_NONE);
	const char *refusal;

	if (l->hierarchy.memory && !l->hierarchy.id) {
		snprintf(reason->text, sizeof(reason->text),
			 "the number of the hierarchy that page faults are counted by is not known");
		return -ENOENT;
	}
	if (!l->probe)
		return probe_new(&options, &l->probe, reason);
	refusal = probe_bad_refusal(l->probe);
	if (refusal)
		snprintf(reason->text, sizeof(reason->text), "%s", refusal);
	return refusal ? -ENOENT : 0;
}

static void add_bad_access(const struct config *config, struct ladder *l)
{
	struct ladder_step *step = &l->bad_access;
	struct probe_reason reason = {0};

	if (!config->probes.bad_access) {
		snprintf(step->text, sizeof(step->text), "not asked for by probes.bad_access");
		return;
	}
	step->tried = true;
	step->error = try_bad_access(config, l, &reason);
	if (step->error == 0) {
		l->bad_accesses = step->rung;
		l->bad_signals = bad_signals(config);
	}
	if (step->error < 0)
		snprintf(step->text, sizeof(step->text), "%s", reason.text);
	else
		snprintf(step->text, sizeof(step->text),
			 "exact counts by signal, code and outcome, records of fatal ones%s",
			 probe_has_latency(l->probe) ? ", time to the delivery"
			 : config->bad_access.latency
			     ? "; bad_access.latency is ignored, the kernel has no page-fault tracepoints"
			     : "");
}

int ladder_climb(const struct config *config, const struct cgroup_mounts *mounts, struct ladder *ret)
{
	int memcg_error, r;

	*ret = (struct ladder){
	    .steps = {[RUNG_TRACEPOINT] = {.rung = "tracepoint"}, [RUNG_MEMCG] = {.rung = "memcg"}},
	    .bad_access = {.rung = "tracepoint"},
	    .page_faults = "off",
	    .bad_accesses = "off",
	    .major_faults = "off",
	};
	r = hierarchy_choose(config->cgroups.hierarchy, mounts, "/proc", &ret->hierarchy);
	if (r < 0) {
		for (size_t i = 0; i < ARRAY_SIZE(ret->steps); i++)
			snprintf(ret->steps[i].text, sizeof(ret->steps[i].text), "no cgroups to count by");
		snprintf(ret->bad_access.text, sizeof(ret->bad_access.text), "no cgroups to count by");
		return r;
	}
	memcg_error = config->probes.page_faults == CONFIG_FAULTS_OFF ? -ENOENT : open_memcg(config, mounts, ret);
	r = climb(config, mounts, ret, memcg_error);
	if (ret->memcg)
		ret->major_faults = "memory.stat";
	if (ret->memcg_counts_faults && !mounts->v2_memory)
		hierarchy_follow_memory(&ret->hierarchy, mounts, "/proc");
	if (r == 0)
		add_bad_access(config, ret);
	return r;
}

void ladder_done(struct ladder *l)
{
	l->probe = probe_free(l->probe);
	l->memcg = memcg_free(l->memcg);
}

int ladder_exit_code(int error)
{
	if (error >= 0)
		return FAULTD_OK;
	if (error == -EPERM || error == -EACCES)
		return FAULTD_NO_PERMISSION;
	return error == -ENOMEM ? FAULTD_NO_RESOURCE : FAULTD_NO_SUPPORT;
}
