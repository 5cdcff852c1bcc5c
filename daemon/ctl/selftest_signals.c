/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/selftest_bodies.h"
#include "daemon/ctl/selftest_child.h"

#define CHILD_STACK_BYTES ((size_t)64 << 10)
/* As linux/prctl.h has them since 5.11. */
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#ifndef PR_SYS_DISPATCH_ON
#define PR_SYS_DISPATCH_ON 1
#endif

/* ---- survivors ---- */

void body_survived(struct witness *w)
{
	witness_catch(SIGSEGV, witness_on_signal, 0);
	for (int i = 0; i < BODY_SURVIVED; i++)
		if (!witness_survives(w, body_null_write))
			witness_problem(w, "access %d raised no signal", i + 1);
}

static char *barrier;

/* As a runtime does: allow what was denied, and let the instruction do it again. */
static void on_barrier(int signo, siginfo_t *info, void *context)
{
	witness_note(signo, info);
	if (mprotect(barrier, page_bytes(), PROT_READ | PROT_WRITE) < 0)
		_exit(1);
}

void body_barrier(struct witness *w)
{
	barrier = map_pages(w, 1, PROT_READ | PROT_WRITE);
	witness_expect(w, barrier);
	witness_catch(SIGSEGV, on_barrier, 0);
	for (int i = 0; i < BODY_BARRIERS; i++) {
		if (mprotect(barrier, page_bytes(), PROT_READ) < 0)
			witness_problem(w, "mprotect: %s", strerror(errno));
		touch_write(barrier);
	}
}

static void *survive_on_thread(void *arg)
{
	for (int i = 0; i < BODY_SURVIVED; i++)
		if (!witness_survives(arg, body_null_read))
			witness_problem(arg, "access %d raised no signal", i + 1);
	return NULL;
}

static void start_threads(struct witness *w, pthread_t *threads, size_t n, void *(*run)(void *))
{
	for (size_t i = 0; i < n; i++) {
		int r = pthread_create(&threads[i], NULL, run, w);
		if (r)
			witness_problem(w, "pthread_create: %s", strerror(r));
	}
}

void body_threads_survive(struct witness *w)
{
	pthread_t threads[BODY_THREADS];

	witness_expect(w, NULL);
	witness_catch(SIGSEGV, witness_on_signal, 0);
	start_threads(w, threads, BODY_THREADS, survive_on_thread);
	for (size_t i = 0; i < BODY_THREADS; i++)
		(void)pthread_join(threads[i], NULL);
}

/* ---- no handler, or none that may run ---- */

static int at_start;

static void *fault_together(void *w)
{
	(void)__atomic_add_fetch(&at_start, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&at_start, __ATOMIC_SEQ_CST) < 2)
		continue;
	body_null_read(w);
	return NULL;
}

void body_two_threads(struct witness *w)
{
	pthread_t threads[2];

	start_threads(w, threads, 2, fault_together);
	for (;;)
		pause();
}

void body_blocked(struct witness *w)
{
	sigset_t set;

	witness_catch(SIGSEGV, witness_on_signal, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	body_null_write(w);
}

void body_ignored(struct witness *w)
{
	(void)signal(SIGSEGV, SIG_IGN);
	body_null_write(w);
}

/* ---- crash handlers ---- */

static void on_crash_return(int signo, siginfo_t *info, void *context)
{
	witness_note(signo, info);
	(void)signal(signo, SIG_DFL);
}

void body_reset_and_return(struct witness *w)
{
	witness_catch(SIGSEGV, on_crash_return, 0);
	body_null_write(w);
}

static void on_crash_note(int signo, siginfo_t *info, void *context)
{
	witness_note(signo, info);
}

void body_resethand(struct witness *w)
{
	witness_catch(SIGSEGV, on_crash_note, (int)SA_RESETHAND);
	body_null_write(w);
}

static void on_crash_reraise(int signo, siginfo_t *info, void *context)
{
	on_crash_return(signo, info, context);
	(void)syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), signo, info);
}

void body_reraise(struct witness *w)
{
	witness_catch(SIGSEGV, on_crash_reraise, 0);
	body_null_write(w);
}

static void on_crash_raise(int signo, siginfo_t *info, void *context)
{
	on_crash_return(signo, info, context);
	(void)raise(signo);
}

void body_reset_and_raise(struct witness *w)
{
	witness_catch(SIGSEGV, on_crash_raise, 0);
	body_null_write(w);
}

/* The signal is not blocked in its handler, and so comes at once. */
void body_reset_and_raise_within(struct witness *w)
{
	witness_catch(SIGSEGV, on_crash_raise, SA_NODEFER);
	body_null_write(w);
}

/* ---- processes of other kinds ---- */

static int fault_in_clone(void *w)
{
	touch_write(NULL);
	return 0;
}

/* Shares the memory of its parent and dies alone. */
void body_vfork(struct witness *w)
{
	char *stack = map_pages(w, CHILD_STACK_BYTES / page_bytes() + 1, PROT_READ | PROT_WRITE);
	pid_t pid = clone(fault_in_clone, stack + CHILD_STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, w);

	if (pid < 0)
		witness_problem(w, "clone: %s", strerror(errno));
	witness_wait_death(w, pid, SIGSEGV);
}

/* The kernel drops what would end it by default, unless it is its own fault: at once, or, blocked, when it would be delivered. */
static _Noreturn void be_init(struct witness *w)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	if (raise(SIGSEGV) != 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0 || raise(SIGSEGV) != 0 ||
	    sigprocmask(SIG_UNBLOCK, &set, NULL) < 0)
		witness_problem(w, "raise: %s", strerror(errno));
	touch_write(NULL);
	_exit(0);
}

void body_container_init(struct witness *w)
{
	pid_t pid;

	if (unshare(CLONE_NEWPID) < 0)
		witness_skip(w, "no pid namespace can be made (unshare: %s)", strerror(errno));
	pid = witness_fork(w);
	if (pid == 0)
		be_init(w);
	witness_wait_death(w, pid, SIGSEGV);
}

#define SWALLOWED 3

static void swallow(struct witness *w, pid_t pid)
{
	int status = 0;

	for (int i = 0; i < SWALLOWED; i++) {
		if (waitpid(pid, &status, 0) < 0)
			witness_problem(w, "waitpid: %s", strerror(errno));
		if (w->skip[0])
			_exit(0);
		if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSEGV)
			witness_problem(w, "the debugger was not told of SIGSEGV, but of status 0x%x",
					(unsigned)status);
		if (i < SWALLOWED - 1 && ptrace(PTRACE_CONT, pid, NULL, NULL) < 0)
			witness_problem(w, "ptrace: %s", strerror(errno));
	}
}

void body_debugger_swallows(struct witness *w)
{
	pid_t pid = witness_fork(w);

	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			witness_skip(w, "processes may not be traced (ptrace: %s)", strerror(errno));
		touch_write(NULL);
		_exit(0);
	}
	swallow(w, pid);
	(void)kill(pid, SIGKILL);
	witness_wait_death(w, pid, SIGKILL);
}

/* ---- by the kernel, without an access of the program ---- */

void body_efault(struct witness *w)
{
	char *bad = map_pages(w, 1, PROT_NONE);
	int fds[2];

	witness_catch(SIGSEGV, witness_on_signal, 0);
	if (pipe(fds) < 0)
		witness_problem(w, "pipe: %s", strerror(errno));
	for (int i = 0; i < BODY_SURVIVED; i++) {
		ssize_t n = write(fds[1], bad, 1);
		if (n >= 0 || errno != EFAULT)
			witness_problem(w, "write(2) from a bad address gave %zd, %s", n, n < 0 ? strerror(errno) : "");
	}
}

static void on_nothing(int signo)
{
}

void body_bad_signal_stack(struct witness *w)
{
	stack_t altstack = {.ss_size = CHILD_STACK_BYTES * 2};
	struct sigaction action = {.sa_handler = on_nothing, .sa_flags = SA_ONSTACK};

	altstack.ss_sp = map_pages(w, altstack.ss_size / page_bytes() + 1, PROT_NONE);
	if (sigaltstack(&altstack, NULL) < 0)
		witness_problem(w, "sigaltstack: %s", strerror(errno));
	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGUSR1, &action, NULL);
	(void)raise(SIGUSR1);
}

/* The kernel allows no handler for this one. */
void body_dispatch_selector(struct witness *w)
{
	char *bad = map_pages(w, 1, PROT_NONE);

	witness_catch(SIGSEGV, witness_on_signal, 0);
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, (unsigned long)PR_SYS_DISPATCH_ON, 0UL, 0UL, bad) < 0)
		witness_skip(w, "this kernel has no system call user dispatch (prctl: %s)", strerror(errno));
	(void)syscall(SYS_getppid);
}

/* Where this program begins in memory, by the linker: its header tells the machine. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((weak, visibility("hidden")));

/* A program that asks to be mapped where nothing can be. */
static int write_bad_program(struct witness *w)
{
	struct {
		ElfW(Ehdr) header;
		ElfW(Phdr) segment;
	} elf = {
	    .segment = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = sizeof(elf), .p_memsz = sizeof(elf)}};
	int fd = -1;

	elf.header = __ehdr_start;
	elf.header.e_type = ET_EXEC;
	elf.header.e_phoff = offsetof(__typeof__(elf), segment);
	elf.header.e_phnum = 1;
	elf.header.e_shnum = 0;
	elf.segment.p_vaddr = (ElfW(Addr))0 - 16 * page_bytes();
	elf.segment.p_align = page_bytes();
#ifdef SYS_memfd_create
	fd = (int)syscall(SYS_memfd_create, "faultd-selftest", 1U /* MFD_CLOEXEC */);
#endif
	if (fd < 0 || write(fd, &elf, sizeof(elf)) != (ssize_t)sizeof(elf))
		witness_skip(w, "no file in memory for a program: %s", strerror(errno));
	return fd;
}

void body_exec_failure(struct witness *w)
{
	char *argv[] = {"faultd-selftest", NULL}, *envp[] = {NULL};

	if (!&__ehdr_start)
		witness_skip(w, "the linker tells nothing of the program's header");
	(void)fexecve(write_bad_program(w), argv, envp);
	witness_skip(w, "this system does not execute files in memory (fexecve: %s)", strerror(errno));
}
