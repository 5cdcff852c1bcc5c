/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/selftest_run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/selftest_child.h"

static const int asks_to_end[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
/* A process begins with these as no program has touched them, whatever faultctl inherited. */
static const int of_cases[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT, SIGUSR1, SIGCHLD};

int selftest_runner_init(int limit_ms, struct selftest_runner *ret)
{
	struct witness *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigset_t set;
	int fd;

	if (w == MAP_FAILED)
		return -errno;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < ARRAY_SIZE(asks_to_end); i++)
		sigaddset(&set, asks_to_end[i]);
	/* Ignored, as a caller may have left it, children would be gone without a status. */
	(void)signal(SIGCHLD, SIG_DFL);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0) {
		int r = -errno;
		(void)munmap(w, sizeof(*w));
		return r;
	}
	*ret = (struct selftest_runner){.witness = w, .signals = fd, .limit_ms = limit_ms};
	return 0;
}

void selftest_runner_done(struct selftest_runner *r)
{
	r->signals = close_fd(r->signals);
	if (r->witness)
		(void)munmap(take_ptr(r->witness), sizeof(*r->witness));
}

bool selftest_interrupted(struct selftest_runner *r)
{
	struct signalfd_siginfo info;

	while (read(r->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo != SIGCHLD)
			r->interrupted = (int)info.ssi_signo;
	return r->interrupted != 0;
}

/* ---- in the process ---- */

static void leave_no_core(void)
{
	struct rlimit limit;

	/* 0 does not hold for cores that go through a pipe, 1 does, and is too small for a file. */
	if (getrlimit(RLIMIT_CORE, &limit) == 0) {
		limit.rlim_max = limit.rlim_max > 1 ? 1 : limit.rlim_max;
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_CORE, &limit);
	}
	(void)prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL);
}

static _Noreturn void be_case(const struct selftest_runner *r, const struct selftest_case *c, bool survive,
			      const struct selftest_cgroup *cgroup, pid_t runner)
{
	struct witness *w = r->witness;
	sigset_t none;
	int error;

	(void)prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
	if (getppid() != runner)
		_exit(1);
	(void)prctl(PR_SET_NAME, "faultd-selftest", 0UL, 0UL, 0UL);
	leave_no_core();
	error = cgroup ? selftest_cgroup_enter(cgroup) : 0;
	if (error < 0)
		witness_problem(w, "cannot enter the cgroup: %s", strerror(-error));
	for (size_t i = 0; i < ARRAY_SIZE(of_cases); i++)
		(void)signal(of_cases[i], SIG_DFL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	witness_begin(w);
	if (survive) {
		witness_catch(selftest_signal_number(c->signal), witness_on_signal, 0);
		if (!witness_survives(w, c->body))
			witness_problem(w, "no signal came");
	} else {
		c->body(w);
	}
	_exit(0);
}

/* ---- in the runner ---- */

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void reap(pid_t pid, int *ret_status)
{
	while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
		continue;
}

static struct selftest_end wait_end(struct selftest_runner *r, const struct selftest_case *c, pid_t pid, int ready)
{
	struct pollfd fds[] = {{.fd = r->signals, .events = POLLIN}, {.fd = ready, .events = POLLIN}};
	const int64_t end_ms = now_ms() + r->limit_ms;
	struct selftest_end end = {0};
	char byte;

	while (waitpid(pid, &end.status, WNOHANG) != pid) {
		int64_t left = end_ms - now_ms();

		if (left > 0)
			(void)poll(fds, ARRAY_SIZE(fds), (int)left);
		end.not_run = selftest_interrupted(r);
		end.timed_out = !end.not_run && left <= 0;
		if (end.not_run || end.timed_out) {
			(void)kill(pid, SIGKILL);
			reap(pid, &end.status);
			return end;
		}
		/* One byte, or the end of the process. */
		if (fds[1].revents) {
			if (read(ready, &byte, 1) == 1 && c->send)
				c->send(pid);
			fds[1].fd = -1;
			fds[1].revents = 0;
		}
	}
	return end;
}

struct selftest_end selftest_run(struct selftest_runner *r, const struct selftest_case *c, bool survive,
				 const struct selftest_cgroup *cgroup)
{
	int ready[2] = {-EBADF, -EBADF};
	struct selftest_end end = {.not_run = true};
	pid_t pid, runner = getpid();

	*r->witness = (struct witness){0};
	if (pipe(ready) < 0) {
		(void)snprintf(r->witness->problem, sizeof(r->witness->problem), "pipe: %s", strerror(errno));
		return end;
	}
	r->witness->ready = ready[1];
	/* What waits in a buffer would be written by both. */
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		be_case(r, c, survive, cgroup, runner);
	if (pid < 0)
		(void)snprintf(r->witness->problem, sizeof(r->witness->problem), "fork: %s", strerror(errno));
	close_fd(ready[1]);
	if (pid > 0)
		end = wait_end(r, c, pid, ready[0]);
	close_fd(ready[0]);
	return end;
}
