/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the process of a case: without cores, with a limit of time, in its cgroup, and never longer than the runner itself.
 */
#pragma once

#include <stdbool.h>

#include "daemon/ctl/selftest.h"
#include "daemon/ctl/selftest_place.h"

struct selftest_runner {
	struct witness *witness; /* shared with the processes */
	int signals;             /* signalfd */
	int limit_ms;            /* for each process */
	int interrupted;         /* the signal that asks the runner to end; 0 if none did */
};

struct selftest_end {
	bool timed_out;
	bool not_run; /* the witness says why, or the runner was interrupted */
	int status;   /* of waitpid(2) */
};

/* From now on SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGCHLD are taken by selftest_run() alone. 0 or -errno. */
int selftest_runner_init(int limit_ms, struct selftest_runner *ret);
void selftest_runner_done(struct selftest_runner *r);
/* Takes what came meanwhile; true if the runner is to end. */
bool selftest_interrupted(struct selftest_runner *r);

/* Runs the body once, in `cgroup` if that is not NULL; with `survive` under a handler that jumps out of the access. The witness has
 * what the process saw. */
struct selftest_end selftest_run(struct selftest_runner *r, const struct selftest_case *c, bool survive,
				 const struct selftest_cgroup *cgroup);
