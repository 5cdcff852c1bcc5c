/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ladder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/exit.h"

/* Best first. Those with a backend are the probe's. */
enum { RUNG_TRACEPOINT, RUNG_FENTRY, RUNG_PERF, RUNG_MEMCG };

static const struct rung {
	const char *name; /* as in probes.page_faults */
	enum config_page_faults asked;
	enum probe_backend backend;
	const char *gives;
} rungs[LADDER_RUNGS] = {
    [RUNG_TRACEPOINT] = {"tracepoint", CONFIG_FAULTS_TRACEPOINT, PROBE_TRACEPOINT,
			 "exact counts by mode, access and kind"},
    [RUNG_FENTRY] = {"fentry", CONFIG_FAULTS_FENTRY, PROBE_FENTRY,
		     "exact counts by mode, access and kind, at do_mem_abort"},
    [RUNG_PERF] = {"perf", CONFIG_FAULTS_PERF, PROBE_PERF, "counts by mode, no access or kind"},
    [RUNG_MEMCG] = {"memcg", CONFIG_FAULTS_MEMCG, PROBE_NONE,
		    "totals per cgroup only, no mode, access or kind, up to seconds late"},
};

static bool allowed(const struct config *config, int rung)
{
	return config->probes.page_faults == CONFIG_FAULTS_AUTO || config->probes.page_faults == rungs[rung].asked;
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
	    .perf_period = config->probes.perf_period,
	    .bad_signals = bad_signals(config),
	    .bad_latency = config->bad_access.latency,
	};
}

static int try_probe(const struct config *config, int rung, struct ladder *l)
{
	struct probe_options options = probe_options(config, l, rungs[rung].backend);
	struct ladder_step *step = &l->steps[rung];
	struct probe_reason reason = {0};
	struct probe_size size;
	char how[64] = "";
	int r = probe_new(&options, &l->probe, &reason);

	if (r < 0) {
		snprintf(step->text, sizeof(step->text), "%s", reason.text);
		return r;
	}
	if (rung == RUNG_PERF && options.perf_period > 1)
		snprintf(how, sizeof(how), ", estimated from one fault in %u", options.perf_period);
	else if (rung == RUNG_PERF)
		snprintf(how, sizeof(how), ", exact");
	probe_size(l->probe, &size);
	snprintf(step->text, sizeof(step->text),
		 "%s%s; %u slots on %u CPUs take %.1f MiB of kernel memory (cgroups.memory allows %.1f MiB)%s",
		 rungs[rung].gives, how, size.slots, size.cpus, (double)size.memory_bytes / (1 << 20),
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

static int try_memcg(struct ladder *l)
{
	struct ladder_step *step = &l->steps[RUNG_MEMCG];
	int error = l->memcg_error;

	if (error < 0)
		snprintf(step->text, sizeof(step->text),
			 "memory.stat: %s; the memory controller must be enabled and mounted (kernel option "
			 "CONFIG_MEMCG, boot "
			 "parameter cgroup_enable=memory)",
			 error == -ENOENT ? "no memory controller" : strerror(-error));
	else
		snprintf(step->text, sizeof(step->text), "%s", rungs[RUNG_MEMCG].gives);
	l->memcg_counts_faults = error == 0;
	return error;
}

static int try_rung(const struct config *config, int rung, struct ladder *l)
{
	return rung == RUNG_MEMCG ? try_memcg(l) : try_probe(config, rung, l);
}

static int climb(const struct config *config, struct ladder *l)
{
	int error = config->probes.page_faults == CONFIG_FAULTS_OFF ? 0 : -ENOENT;

	for (int rung = 0; rung < LADDER_RUNGS; rung++) {
		struct ladder_step *step = &l->steps[rung];

		if (!allowed(config, rung)) {
			snprintf(step->text, sizeof(step->text), "not asked for by probes.page_faults");
			continue;
		}
		step->tried = true;
		step->error = try_rung(config, rung, l);
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

/* Tries the rungs that were not tried by themselves, for the plan of --check only. */
void ladder_survey(const struct config *config, struct ladder *l)
{
	for (int rung = 0; rung < LADDER_RUNGS; rung++) {
		struct ladder_step *step = &l->steps[rung];
		struct ladder other = {.memcg_error = l->memcg_error, .hierarchy = l->hierarchy};

		if (step->tried)
			continue;
		step->error = try_rung(config, rung, &other);
		step->surveyed = true;
		snprintf(step->text, sizeof(step->text), "%s", other.steps[rung].text);
		probe_free(other.probe);
	}
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
	int r;

	*ret = (struct ladder){
	    .bad_access = {.rung = "tracepoint"},
	    .page_faults = "off",
	    .bad_accesses = "off",
	    .major_faults = "off",
	};
	for (int rung = 0; rung < LADDER_RUNGS; rung++)
		ret->steps[rung].rung = rungs[rung].name;
	r = hierarchy_choose(config->cgroups.hierarchy, mounts, "/proc", &ret->hierarchy);
	if (r < 0) {
		for (size_t i = 0; i < ARRAY_SIZE(ret->steps); i++)
			snprintf(ret->steps[i].text, sizeof(ret->steps[i].text), "no cgroups to count by");
		snprintf(ret->bad_access.text, sizeof(ret->bad_access.text), "no cgroups to count by");
		return r;
	}
	ret->memcg_error = config->probes.page_faults == CONFIG_FAULTS_OFF ? -ENOENT : open_memcg(config, mounts, ret);
	r = climb(config, ret);
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
