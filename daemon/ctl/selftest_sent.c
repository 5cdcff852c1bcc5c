/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/selftest_bodies.h"
#include "daemon/ctl/selftest_child.h"

/* What a forger claims. */
#define FORGED_ADDRESS ((void *)0x1234000)

/* The same number on all architectures since 5.1, older than some C libraries. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

/* ---- by another process ---- */

void send_kill(pid_t pid)
{
	(void)kill(pid, SIGSEGV);
}

void send_queue(pid_t pid)
{
	(void)sigqueue(pid, SIGSEGV, (union sigval){.sival_int = 1});
}

/* SIGUSR1 says that it was done. */
void send_twice(pid_t pid)
{
	(void)kill(pid, SIGSEGV);
	(void)kill(pid, SIGSEGV);
	(void)kill(pid, SIGUSR1);
}

void body_wait(struct witness *w)
{
	witness_ready(w);
	for (;;)
		pause();
}

static void wait_until_sent(struct witness *w, int also_blocked)
{
	sigset_t set, usr1;
	int signo;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	set = usr1;
	if (also_blocked)
		sigaddset(&set, also_blocked);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	witness_ready(w);
	(void)sigwait(&usr1, &signo);
}

static void unblock(struct witness *w)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void body_wait_blocked(struct witness *w)
{
	witness_catch(SIGSEGV, witness_on_signal, 0);
	wait_until_sent(w, SIGSEGV);
	if (!witness_survives(w, unblock))
		witness_problem(w, "the signal that was sent did not come");
}

void body_wait_ignored(struct witness *w)
{
	(void)signal(SIGSEGV, SIG_IGN);
	wait_until_sent(w, 0);
}

/* ---- by itself ---- */

void body_raise(struct witness *w)
{
	(void)raise(SIGSEGV);
}

static siginfo_t forged(struct witness *w)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = SIGSEGV;
	info.si_code = SEGV_MAPERR;
	info.si_addr = FORGED_ADDRESS;
	witness_expect(w, FORGED_ADDRESS);
	return info;
}

void body_forged_process(struct witness *w)
{
	siginfo_t info = forged(w);

	(void)syscall(SYS_rt_sigqueueinfo, getpid(), SIGSEGV, &info);
}

void body_forged_thread(struct witness *w)
{
	siginfo_t info = forged(w);

	(void)syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGSEGV, &info);
}

void body_forged_pidfd(struct witness *w)
{
	siginfo_t info = forged(w);
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0U);

	if (fd < 0)
		witness_skip(w, "this kernel has no descriptors of processes (pidfd_open: %s)", strerror(errno));
	if (syscall(SYS_pidfd_send_signal, fd, SIGSEGV, &info, 0U) < 0)
		witness_problem(w, "pidfd_send_signal: %s", strerror(errno));
}

void body_timer(struct witness *w)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGSEGV};
	const struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 || timer_settime(timer, 0, &soon, NULL) < 0)
		witness_skip(w, "no timer: %s", strerror(errno));
	for (;;)
		pause();
}

/* The one that was sent waits, blocked, in the queue of the process; that of the access ends it first. */
void body_fault_before_sent(struct witness *w)
{
	sigset_t set;

	witness_catch(SIGSEGV, witness_on_signal, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)kill(getpid(), SIGSEGV);
	touch_write(NULL);
}

/* ---- other signals of the same kind ---- */

void body_seccomp(struct witness *w)
{
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) < 0 ||
	    prctl(PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_FILTER, &program, 0UL, 0UL) < 0)
		witness_skip(w, "no seccomp filter can be set (prctl: %s)", strerror(errno));
	(void)syscall(SYS_getpgid, 0);
}

void body_abort(struct witness *w)
{
	abort();
}
