/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ladder: which of the ways to see page faults this host offers, best first, decided by trying each for real.
 * Belongs to the pipeline: it joins sources that do not know each other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "daemon/hierarchy.h"
#include "daemon/source/cgroup.h"
#include "daemon/source/memcg.h"
#include "daemon/source/probe.h"

#define LADDER_RUNGS 4

struct ladder_step {
	const char *rung; /* as in probes.page_faults */
	bool surveyed;    /* tried by ladder_survey() alone */
	bool tried;       /* false: a better rung was taken, or the configuration asks for another */
	int error;        /* 0: usable */
	char text[512];   /* what it gives, or why it cannot be used and what would make it so */
};

struct ladder {
	struct ladder_step steps[LADDER_RUNGS];
	struct ladder_step bad_access; /* no rung: there is one way or none */
	const char *page_faults;       /* the chosen rung's name, "off" if none */
	const char *major_faults;      /* "memory.stat" or "off" */
	uint32_t bad_signals;          /* bits 1 << enum bad_signal: that are counted */
	const char *bad_accesses;      /* "tracepoint" or "off" */
	struct probe *probe;           /* NULL unless page faults or bad accesses are counted by BPF programs */
	struct memcg *memcg; /* memory.stat: major faults, and all faults if the rung is memcg; NULL if not there */
	bool memcg_counts_faults;
	int memcg_error;            /* why memcg is NULL */
	struct hierarchy hierarchy; /* of all ids and names */
};

/* Climbs, for page faults; bad accesses that cannot be counted are no failure. 0 with a rung, or with none if the configuration says off; else the error of the rung that was closest to
 * working: -EPERM not permitted, -ENOENT not supported. *ret is always filled and must be freed. Logs nothing. */
int ladder_climb(const struct config *config, const struct cgroup_mounts *mounts, struct ladder *ret);
/* After a climb: tries the other rungs, too, and lets go of them, so that their steps say whether they would be usable. */
void ladder_survey(const struct config *config, struct ladder *l);
void ladder_done(struct ladder *l);
/* The program's exit code (daemon/exit.h) for a result of ladder_climb(). */
int ladder_exit_code(int error);
