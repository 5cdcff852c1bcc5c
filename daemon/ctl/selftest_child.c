/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/selftest_child.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct witness *of_handlers;
/* Threads survive each for itself. */
static __thread sigjmp_buf way_out;

void witness_begin(struct witness *w)
{
	of_handlers = w;
}

void witness_expect(struct witness *w, const volatile void *address)
{
	w->expected = (uintptr_t)address;
	w->check_address = true;
}

/* ---- handlers ---- */

/* The case of misaligned accesses runs with alignment checks on, which the kernel leaves on in the handler. */
static void alignment_checks_off(void)
{
#if defined(__x86_64__)
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~UINT64_C(0x40000));
#elif defined(__i386__)
	__builtin_ia32_writeeflags_u32(__builtin_ia32_readeflags_u32() & ~0x40000u);
#endif
}

static bool same_page(uintptr_t a, uintptr_t b)
{
	/* Not all architectures tell more of the address than its page. */
	return ((a ^ b) & ~(uintptr_t)(page_bytes() - 1)) == 0;
}

void witness_note(int signo, const siginfo_t *info)
{
	struct witness *w = of_handlers;
	uintptr_t address = (uintptr_t)info->si_addr;

	if (__atomic_fetch_add(&w->calls, 1, __ATOMIC_SEQ_CST) == 0) {
		w->signo = signo;
		w->code = info->si_code;
		w->address = address;
		return;
	}
	if (signo != w->signo || info->si_code != w->code || (w->check_address && !same_page(address, w->expected)))
		__atomic_fetch_add(&w->strange, 1, __ATOMIC_SEQ_CST);
}

void witness_on_signal(int signo, siginfo_t *info, void *context)
{
	alignment_checks_off();
	witness_note(signo, info);
	siglongjmp(way_out, 1);
}

void witness_catch(int signo, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigemptyset(&action.sa_mask);
	(void)sigaction(signo, &action, NULL);
}

bool witness_survives(struct witness *w, void (*body)(struct witness *w))
{
	if (sigsetjmp(way_out, 1))
		return true;
	body(w);
	return false;
}

/* ---- talking to the runner ---- */

void witness_ready(const struct witness *w)
{
	(void)!write(w->ready, "r", 1);
}

void witness_skip(struct witness *w, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(w->skip, sizeof(w->skip), format, ap);
	va_end(ap);
	_exit(0);
}

void witness_problem(struct witness *w, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(w->problem, sizeof(w->problem), format, ap);
	va_end(ap);
	_exit(0);
}

/* ---- children of children ---- */

pid_t witness_fork(struct witness *w)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		witness_problem(w, "fork: %s", strerror(errno));
	/* In another pid namespace the parent is nobody. */
	if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || (getppid() != parent && getppid() != 0)))
		_exit(1);
	return pid;
}

void witness_wait_death(struct witness *w, pid_t pid, int signo)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			witness_problem(w, "waitpid: %s", strerror(errno));
	if (w->skip[0] || w->problem[0])
		_exit(0);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != signo)
		witness_problem(w, "the process within should have died of signal %d, but its status is 0x%x", signo,
				(unsigned)status);
}

/* ---- memory ---- */

size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

__attribute__((noinline)) void touch_read(const volatile void *p)
{
	__asm__ volatile("" : "+r"(p));
	(void)*(const volatile char *)p;
}

__attribute__((noinline)) void touch_write(volatile void *p)
{
	__asm__ volatile("" : "+r"(p));
	*(volatile char *)p = 1;
}

char *map_pages(struct witness *w, size_t n, int protection)
{
	char *p = mmap(NULL, n * page_bytes(), protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		witness_problem(w, "mmap: %s", strerror(errno));
	return p;
}
