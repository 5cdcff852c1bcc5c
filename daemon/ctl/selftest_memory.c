/* SPDX-License-Identifier: Apache-2.0 */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/selftest_bodies.h"
#include "daemon/ctl/selftest_child.h"

/* Newer than some C libraries and kernel headers. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef PKEY_DISABLE_ACCESS
#define PKEY_DISABLE_ACCESS 1
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define THREAD_STACK_PAGES 64 /* arm64 asks for 128 KiB at least */
#define MAIN_STACK_BYTES ((rlim_t)512 << 10)
#define ALTSTACK_BYTES ((size_t)128 << 10)

/* ---- nothing there ---- */

void body_null_read(struct witness *w)
{
	witness_expect(w, NULL);
	touch_read(NULL);
}

void body_null_write(struct witness *w)
{
	witness_expect(w, NULL);
	touch_write(NULL);
}

static void jump_to(void *p)
{
	void (*volatile function)(void) = (void (*)(void))p;

	function();
}

/* Where a function pointer is no address but points to one, a jump would read first. */
static void need_plain_function_pointers(struct witness *w)
{
#if defined(__hppa__) || defined(__ia64__) || (defined(__powerpc64__) && (!defined(_CALL_ELF) || _CALL_ELF != 2))
	witness_skip(w, "function pointers of this architecture are no addresses");
#endif
}

void body_null_jump(struct witness *w)
{
	need_plain_function_pointers(w);
	witness_expect(w, NULL);
	jump_to(NULL);
}

void body_unmapped(struct witness *w)
{
	char *p = map_pages(w, 1, PROT_READ | PROT_WRITE);

	touch_write(p);
	(void)munmap(p, page_bytes());
	witness_expect(w, p);
	touch_read(p);
}

/* ---- not allowed ---- */

void body_read_only(struct witness *w)
{
	char *p = map_pages(w, 1, PROT_READ);

	touch_read(p);
	witness_expect(w, p);
	touch_write(p);
}

void body_no_exec(struct witness *w)
{
	char *p;

	need_plain_function_pointers(w);
	/* What may be read may be executed, too, in the personality of old programs. */
	(void)personality((unsigned long)personality(0xffffffff) & ~(unsigned long)READ_IMPLIES_EXEC);
	p = map_pages(w, 1, PROT_READ | PROT_WRITE);
	touch_write(p);
	witness_expect(w, p);
	jump_to(p);
}

void body_prot_none(struct witness *w)
{
	char *p = map_pages(w, 1, PROT_NONE);

	witness_expect(w, p);
	touch_read(p);
}

void body_protection_key(struct witness *w)
{
#ifdef SYS_pkey_alloc
	long key = syscall(SYS_pkey_alloc, 0UL, (unsigned long)PKEY_DISABLE_ACCESS);
	char *p;

	if (key < 0)
		witness_skip(w, "no protection keys on this CPU and kernel (pkey_alloc: %s)", strerror(errno));
	p = map_pages(w, 1, PROT_READ | PROT_WRITE);
	if (syscall(SYS_pkey_mprotect, p, page_bytes(), PROT_READ | PROT_WRITE, key) < 0)
		witness_problem(w, "pkey_mprotect: %s", strerror(errno));
	witness_expect(w, p);
	touch_read(p);
#else
	witness_skip(w, "no protection keys on this architecture");
#endif
}

static void *overflow_stack(void *arg)
{
	for (;;) {
		volatile char *p = alloca(1024);
		*p = 1;
	}
	return NULL;
}

struct on_thread {
	struct witness *w;
	stack_t altstack;
};

static void overflow_body(struct witness *w)
{
	(void)overflow_stack(NULL);
}

static void *overflow_on_thread(void *arg)
{
	const struct on_thread *t = arg;

	(void)sigaltstack(&t->altstack, NULL);
	(void)witness_survives(t->w, overflow_body);
	return NULL;
}

/* The C library's own guard is a page without rights or, newer, a marker: here it has to be a page. */
void body_guard_page(struct witness *w)
{
	char *guard = map_pages(w, THREAD_STACK_PAGES + 1, PROT_READ | PROT_WRITE);
	struct on_thread t = {
	    .w = w,
	    .altstack = {.ss_sp = map_pages(w, ALTSTACK_BYTES / page_bytes() + 1, PROT_READ | PROT_WRITE),
			 .ss_size = ALTSTACK_BYTES}};
	struct sigaction action;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	/* The caller's handler, if any, needs a stack on which it has room. */
	if (sigaction(SIGSEGV, NULL, &action) == 0 && action.sa_flags & SA_SIGINFO)
		witness_catch(SIGSEGV, witness_on_signal, SA_ONSTACK);
	if (mprotect(guard, page_bytes(), PROT_NONE) < 0)
		witness_problem(w, "mprotect: %s", strerror(errno));
	witness_expect(w, guard);
	(void)pthread_attr_init(&attr);
	r = pthread_attr_setstack(&attr, guard + page_bytes(), THREAD_STACK_PAGES * page_bytes());
	if (r == 0)
		r = pthread_create(&thread, &attr, overflow_on_thread, &t);
	if (r)
		witness_skip(w, "a thread on a stack of %zu bytes: %s", THREAD_STACK_PAGES * page_bytes(), strerror(r));
	(void)pthread_join(thread, NULL);
	_exit(0);
}

void body_guard_marker(struct witness *w)
{
	char *p = map_pages(w, 1, PROT_READ | PROT_WRITE);

	if (madvise(p, page_bytes(), MADV_GUARD_INSTALL) < 0)
		witness_skip(w, "this kernel has no guard markers (madvise: %s)", strerror(errno));
	witness_expect(w, p);
	touch_read(p);
}

/* ---- nothing behind it ---- */

static int memory_file(struct witness *w, size_t pages)
{
	int fd = -1;

#ifdef SYS_memfd_create
	fd = (int)syscall(SYS_memfd_create, "faultd-selftest", 1U /* MFD_CLOEXEC */);
#else
	errno = ENOSYS;
#endif
	if (fd < 0)
		witness_skip(w, "memfd_create: %s", strerror(errno));
	if (ftruncate(fd, (off_t)(pages * page_bytes())) < 0)
		witness_problem(w, "ftruncate: %s", strerror(errno));
	return fd;
}

static char *map_file(struct witness *w, int fd, size_t pages)
{
	char *p = mmap(NULL, pages * page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		witness_problem(w, "mmap: %s", strerror(errno));
	return p;
}

void body_past_eof(struct witness *w)
{
	char *p = map_file(w, memory_file(w, 1), 2);

	touch_read(p);
	witness_expect(w, p + page_bytes());
	touch_read(p + page_bytes());
}

void body_truncated(struct witness *w)
{
	int fd = memory_file(w, 1);
	char *p = map_file(w, fd, 1);

	touch_write(p);
	if (ftruncate(fd, 0) < 0)
		witness_problem(w, "ftruncate: %s", strerror(errno));
	witness_expect(w, p);
	touch_read(p);
}

/* ---- userfaultfd ---- */

#ifdef SYS_userfaultfd
/* Memory whose missing pages come from a userfaultfd with these features. */
static char *map_userfault(struct witness *w, uint64_t features, int *ret_fd)
{
	char *p = map_pages(w, 1, PROT_READ | PROT_WRITE);
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	struct uffdio_register range = {.range = {.start = (uintptr_t)p, .len = page_bytes()},
					.mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0)
		witness_skip(w, "userfaultfd: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api) < 0)
		witness_skip(w, "this kernel's userfaultfd cannot do that (UFFDIO_API: %s)", strerror(errno));
	if (ioctl(fd, UFFDIO_REGISTER, &range) < 0)
		witness_problem(w, "UFFDIO_REGISTER: %s", strerror(errno));
	*ret_fd = fd;
	return p;
}
#endif

void body_userfaultfd(struct witness *w)
{
#if defined(SYS_userfaultfd) && defined(UFFD_FEATURE_SIGBUS)
	int fd;
	char *p = map_userfault(w, UFFD_FEATURE_SIGBUS, &fd);

	witness_expect(w, p);
	touch_read(p);
#else
	witness_skip(w, "built without userfaultfd");
#endif
}

void body_memory_failure(struct witness *w)
{
#ifdef SYS_userfaultfd
	/* As linux/userfaultfd.h has it since 6.6; a marker in the page table, the memory itself stays good. */
	struct poison {
		struct uffdio_range range;
		uint64_t mode;
		int64_t updated;
	} poison = {.range = {.len = page_bytes()}};
	const uint64_t feature = UINT64_C(1) << 14;
	int fd;
	char *p = map_userfault(w, feature, &fd);

	poison.range.start = (uintptr_t)p;
	if (ioctl(fd, _IOWR(UFFDIO, 8, struct poison), &poison) < 0)
		witness_problem(w, "UFFDIO_POISON: %s", strerror(errno));
	witness_expect(w, p);
	touch_read(p);
#else
	witness_skip(w, "built without userfaultfd");
#endif
}

/* ---- the main stack ---- */

static void limit_stack(struct witness *w)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_STACK, &limit) < 0)
		witness_problem(w, "getrlimit: %s", strerror(errno));
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > MAIN_STACK_BYTES)
		limit.rlim_cur = MAIN_STACK_BYTES;
	if (setrlimit(RLIMIT_STACK, &limit) < 0)
		witness_problem(w, "setrlimit: %s", strerror(errno));
}

void body_stack_overflow(struct witness *w)
{
	limit_stack(w);
	(void)overflow_stack(NULL);
}

void body_stack_overflow_no_altstack(struct witness *w)
{
	witness_catch(SIGSEGV, witness_on_signal, 0);
	body_stack_overflow(w);
}

void body_stack_overflow_altstack(struct witness *w)
{
	stack_t altstack = {.ss_size = ALTSTACK_BYTES};

	altstack.ss_sp = map_pages(w, ALTSTACK_BYTES / page_bytes() + 1, PROT_READ | PROT_WRITE);
	if (sigaltstack(&altstack, NULL) < 0)
		witness_problem(w, "sigaltstack: %s", strerror(errno));
	witness_catch(SIGSEGV, witness_on_signal, SA_ONSTACK);
	if (!witness_survives(w, body_stack_overflow))
		witness_problem(w, "the stack did not overflow");
}
