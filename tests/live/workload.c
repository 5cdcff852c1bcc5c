/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page faults by plan: workload SCENARIO [ARGUMENTS]
 *
 * Prepares, prints "ready ...", and waits on standard input. Each byte there lets it do its work once, after which it
 * prints "done OPERATIONS MINOR MAJOR": how many operations it did and by how much getrusage(2) says its own faults
 * grew. End of file ends it. Between the two barriers nothing but the work faults: all else is resident and locked.
 * "skip REASON" instead of "ready" means that the machine cannot do it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/sched.h>

#define ERROR_IF(condition, ...)                       \
	do {                                           \
		if (condition) {                       \
			fprintf(stderr, "workload: "); \
			fprintf(stderr, __VA_ARGS__);  \
			fprintf(stderr, ": %m\n");     \
			exit(1);                       \
		}                                      \
	} while (0)

#define MAX_THREADS 256
#define CHUNK_PAGES 16384u

static long page;
static char **args; /* of the scenario, NULL-terminated */

static long arg(int at, long otherwise)
{
	for (int i = 0; i <= at; i++)
		if (!args[i])
			return otherwise;
	return atol(args[at]);
}

static void skip(const char *reason)
{
	printf("skip %s\n", reason);
	exit(0);
}

/* ---- memory ---- */

/* Fresh anonymous memory, nothing of it present, no huge pages, next to no other mapping that it could be merged with.
 */
static char *fresh(size_t pages)
{
	char *p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ERROR_IF(p == MAP_FAILED, "mmap of %zu pages", pages);
	/* EINVAL: a kernel without huge pages. */
	ERROR_IF(madvise(p, pages * page, MADV_NOHUGEPAGE) && errno != EINVAL, "madvise");
	return p;
}

static void write_pages(char *p, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		*(volatile char *)(p + i * page) = 1;
}

/* Writes `pages` fresh pages in chunks, so that a million of them need no 4 GiB. */
static void write_fresh(size_t pages)
{
	size_t chunk = pages < CHUNK_PAGES ? pages : CHUNK_PAGES;
	char *p = fresh(chunk);

	while (pages) {
		size_t n = pages < chunk ? pages : chunk;

		write_pages(p, n);
		madvise(p, chunk * page, MADV_DONTNEED);
		pages -= n;
	}
	munmap(p, chunk * page);
}

/* A file of `pages` pages in the page cache, each beginning with `fill`. */
static int cached_file(size_t pages, const void *fill, size_t len, bool executable)
{
	/* Code is put in a memfd, since /var/tmp may be mounted noexec. */
	int fd = executable ? -1 : open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = memfd_create("workload", MFD_CLOEXEC);
	ERROR_IF(fd < 0, "memfd_create");
	ERROR_IF(ftruncate(fd, pages * page), "ftruncate");
	for (size_t i = 0; i < pages; i++)
		ERROR_IF(pwrite(fd, fill, len, i * page) != (ssize_t)len, "pwrite");
	return fd;
}

/* ---- scenarios ---- */

/* write N: N user writes to missing pages. */
static long work_write(void)
{
	long n = arg(0, 1000);

	write_fresh(n);
	return n;
}

/* A page in the same 512 GiB as those of work_fixed(), but in another one of its GiB: with pages of 4 KiB the first of
 * those then lacks tables from level 1 on, whatever else is mapped. */
static void prepare_fixed(void)
{
	char *p = mmap((void *)0x80000000UL, page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	ERROR_IF(p != (void *)0x80000000UL, "mmap at 0x80000000");
	write_pages(p, 1);
}

/* fixed: 16 pages at 0xcafe0000, written once each: 16 user writes to missing pages. */
static long work_fixed(void)
{
	char *p = mmap((void *)0xcafe0000UL, 16 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	ERROR_IF(p != (void *)0xcafe0000UL, "mmap at 0xcafe0000");
	madvise(p, 16 * page, MADV_NOHUGEPAGE);
	write_pages(p, 16);
	munmap(p, 16 * page);
	return 16;
}

static int file = -1;

static void prepare_file(void)
{
	file = cached_file(arg(0, 1000), "x", 1, false);
}

/* file N: maps a file whole and reads all pages; the kernel maps several pages per fault ("fault-around"), so the
 * number of faults is its own affair. */
static long work_file(void)
{
	long n = arg(0, 1000);
	char *p = mmap(NULL, n * page, PROT_READ, MAP_SHARED, file, 0), sum = 0;

	ERROR_IF(p == MAP_FAILED, "mmap of the file");
	for (long i = 0; i < n; i++)
		sum += *(volatile char *)(p + i * page);
	munmap(p, n * page);
	return n + 0 * sum;
}

/* filepages N: maps the file one page at a time, which leaves no room for fault-around: N user reads of missing pages.
 */
static long work_filepages(void)
{
	long n = arg(0, 1000);
	char sum = 0;

	for (long i = 0; i < n; i++) {
		char *p = mmap(NULL, page, PROT_READ, MAP_SHARED, file, i * page);

		ERROR_IF(p == MAP_FAILED, "mmap of the file");
		sum += *(volatile char *)p;
		munmap(p, page);
	}
	return n + 0 * sum;
}

static void prepare_exec(void)
{
#if defined(__x86_64__)
	static const uint8_t code[] = {0xc3}; /* ret */
#elif defined(__aarch64__)
	static const uint8_t code[] = {0xc0, 0x03, 0x5f, 0xd6}; /* ret */
#else
	static const uint8_t code[1];
	skip("no machine code for this architecture");
#endif
	file = cached_file(arg(0, 1000), code, sizeof(code), true);
}

/* exec N: calls into N pages of code, mapped one at a time: N user fetches from missing pages. */
static long work_exec(void)
{
	long n = arg(0, 1000);

	for (long i = 0; i < n; i++) {
		void *p = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, i * page);

		ERROR_IF(p == MAP_FAILED, "mmap of code");
		((void (*)(void))p)();
		munmap(p, page);
	}
	return n;
}

static void read_into(char *p, long n)
{
	for (long i = 0; i < n; i++)
		ERROR_IF(pread(file, p + i * page, page, i * page) != page, "pread");
}

/* readinto N: N times read(2) of one page into a missing page: N kernel writes to missing pages. */
static long work_readinto(void)
{
	long n = arg(0, 1000);
	char *p = fresh(n);

	read_into(p, n);
	munmap(p, n * page);
	return n;
}

static pid_t sharer;
static char *shared;

static pid_t start_sharer(void)
{
	pid_t pid = fork();

	ERROR_IF(pid < 0, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void report(int fd, const char *word, long operations, const struct rusage *before);

/* cow N: pages shared with a forked child that sleeps, written by the parent: N user writes denied by protection. */
static void settle_cow(void)
{
	long n = arg(0, 1000);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char *warm = fresh(16);
	struct rusage before;

	shared = fresh(n);
	write_pages(shared, n);
	write_pages(warm, 16);
	sharer = start_sharer();
	/* The fork made all other pages copy-on-write too: go the same way once, so that they are our own again. */
	getrusage(RUSAGE_SELF, &before);
	write_pages(warm, 16);
	report(null, "warm", 0, &before);
	close(null);
}

static long work_cow(void)
{
	long n = shared ? arg(0, 1000) : 0;

	if (shared)
		write_pages(shared, n);
	shared = NULL;
	return n;
}

/* fork N: forks; the child writes N pages that its parent had written, and exits. Both sides copy some pages more. */
static long work_fork(void)
{
	long n = arg(0, 1000);
	char *p = fresh(n);
	pid_t pid;

	write_pages(p, n);
	pid = fork();
	ERROR_IF(pid < 0, "fork");
	if (!pid) {
		write_pages(p, n);
		_exit(0);
	}
	ERROR_IF(waitpid(pid, NULL, 0) != pid, "waitpid");
	munmap(p, n * page);
	return n;
}

static sigjmp_buf escape;
static char *guarded;

static void on_segv_escape(int signal)
{
	siglongjmp(escape, 1);
}

static void on_segv_allow(int signal)
{
	mprotect(guarded, page, PROT_READ | PROT_WRITE);
}

static void prepare_segv(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_NODEFER};

	ERROR_IF(sigaction(SIGSEGV, &action, NULL), "sigaction");
	guarded = fresh(1);
	write_pages(guarded, 1);
	ERROR_IF(mprotect(guarded, page, PROT_READ), "mprotect");
}

static void prepare_denied(void)
{
	prepare_segv(on_segv_escape);
}

/* denied N: N writes to a present read-only page, each left through the SIGSEGV handler: N user writes denied by
 * protection. */
static long work_denied(void)
{
	volatile long i = 0, n = arg(0, 1000);

	while (i < n) {
		i++;
		if (!sigsetjmp(escape, 0))
			*(volatile char *)guarded = 1;
	}
	return n;
}

static void prepare_toggle(void)
{
	prepare_segv(on_segv_allow);
}

/* toggle N: N times takes write permission away and writes; the handler gives it back. The kernel may fault once more
 * each time to make the entry writable: at least N. */
static long work_toggle(void)
{
	long n = arg(0, 1000);

	for (long i = 0; i < n; i++) {
		ERROR_IF(mprotect(guarded, page, PROT_READ), "mprotect");
		*(volatile char *)guarded = 1;
	}
	return n;
}

/* threads N: a thread pinned to each allowed CPU, all writing N fresh pages each at once. The thread ids follow
 * "ready". */
static pthread_barrier_t begin, finish;
static int n_threads;
static pid_t tids[MAX_THREADS];

static void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *thread_main(void *cpu)
{
	pin_to((int)(intptr_t)cpu);
	tids[__atomic_fetch_add(&n_threads, 1, __ATOMIC_SEQ_CST)] = gettid();
	for (;;) {
		pthread_barrier_wait(&begin);
		write_fresh(arg(0, 1000));
		pthread_barrier_wait(&finish);
	}
	return NULL;
}

static void prepare_threads(void)
{
	int started = 0;
	cpu_set_t set;
	pthread_t t;

	ERROR_IF(sched_getaffinity(0, sizeof(set), &set), "sched_getaffinity");
	ERROR_IF(pthread_barrier_init(&begin, NULL, CPU_COUNT(&set) + 1), "barrier");
	ERROR_IF(pthread_barrier_init(&finish, NULL, CPU_COUNT(&set) + 1), "barrier");
	for (int cpu = 0; cpu < CPU_SETSIZE && started < MAX_THREADS; cpu++)
		if (CPU_ISSET(cpu, &set)) {
			errno = pthread_create(&t, NULL, thread_main, (void *)(intptr_t)cpu);
			ERROR_IF(errno, "pthread_create");
			started++;
		}
	while (__atomic_load_n(&n_threads, __ATOMIC_SEQ_CST) < started)
		sched_yield();
	/* They are on their way into the barrier, with nothing that faults left to do once the memory is locked. */
	usleep(50000);
}

static long work_threads(void)
{
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&finish);
	return arg(0, 1000) * n_threads;
}

/* preempted N US: on each allowed CPU a thread that writes fresh pages without a pause, and another of real-time priority that a timer
 * wakes N times, each US microseconds, in its midst to write one as well. As many user writes to missing pages as it says. */
static int n_tickers;
static volatile int ticking;
static long written;

static void *busy_main(void *cpu)
{
	pin_to((int)(intptr_t)cpu);
	for (;;) {
		long n = 0;
		char *p;

		pthread_barrier_wait(&begin);
		p = fresh(64);
		while (ticking) {
			write_pages(p, 64);
			madvise(p, 64 * page, MADV_DONTNEED);
			n += 64;
		}
		munmap(p, 64 * page);
		__atomic_fetch_add(&written, n, __ATOMIC_SEQ_CST);
		pthread_barrier_wait(&finish);
	}
	return NULL;
}

static void *ticker_main(void *cpu)
{
	struct timespec tick = {.tv_nsec = arg(1, 100) * 1000};
	struct sched_param priority = {.sched_priority = 1};
	pin_to((int)(intptr_t)cpu);
	ERROR_IF(sched_setscheduler(0, SCHED_FIFO, &priority), "sched_setscheduler");
	for (;;) {
		char *p;

		pthread_barrier_wait(&begin);
		p = fresh(1);
		for (long i = 0; i < arg(0, 1000); i++) {
			clock_nanosleep(CLOCK_MONOTONIC, 0, &tick, NULL);
			write_pages(p, 1);
			madvise(p, page, MADV_DONTNEED);
		}
		munmap(p, page);
		__atomic_fetch_add(&written, arg(0, 1000), __ATOMIC_SEQ_CST);
		__atomic_fetch_sub(&ticking, 1, __ATOMIC_SEQ_CST);
		pthread_barrier_wait(&finish);
	}
	return NULL;
}

static void prepare_preempted(void)
{
	cpu_set_t set;
	pthread_t t;

	ERROR_IF(sched_getaffinity(0, sizeof(set), &set), "sched_getaffinity");
	n_tickers = CPU_COUNT(&set) < MAX_THREADS ? CPU_COUNT(&set) : MAX_THREADS;
	ERROR_IF(pthread_barrier_init(&begin, NULL, 2 * n_tickers + 1), "barrier");
	ERROR_IF(pthread_barrier_init(&finish, NULL, 2 * n_tickers + 1), "barrier");
	for (int cpu = 0, started = 0; started < n_tickers; cpu++)
		if (CPU_ISSET(cpu, &set)) {
			errno = pthread_create(&t, NULL, busy_main, (void *)(intptr_t)cpu);
			ERROR_IF(errno, "pthread_create");
			errno = pthread_create(&t, NULL, ticker_main, (void *)(intptr_t)cpu);
			ERROR_IF(errno, "pthread_create");
			started++;
		}
	usleep(200000); /* as prepare_threads() */
}

static long work_preempted(void)
{
	written = 0;
	ticking = n_tickers;
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&finish);
	return written;
}

/* ---- cgroups that come and go ---- */

static pid_t clone_into(int cgroup)
{
	struct clone_args clone = {
	    .flags = CLONE_INTO_CGROUP | CLONE_VFORK,
	    .exit_signal = SIGCHLD,
	    .cgroup = (uint64_t)cgroup,
	};

	return (pid_t)syscall(SYS_clone3, &clone, sizeof(clone));
}

/* No process is born into a cgroup of v1: it moves there. */
static pid_t clone_and_enter(int cgroup)
{
	struct clone_args clone = {.flags = CLONE_VFORK, .exit_signal = SIGCHLD};
	pid_t pid = (pid_t)syscall(SYS_clone3, &clone, sizeof(clone));

	if (!pid) {
		int procs = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);

		if (write(procs, "0", 1) != 1)
			_exit(1);
	}
	return pid;
}

/* Runs a child that is in the cgroup from birth, writes `pages` fresh pages, stays for `hold_us`, and exits. */
static void live_and_die(int dir, const char *name, long pages, long hold_us)
{
	int cgroup = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int status;
	pid_t pid;

	ERROR_IF(cgroup < 0, "open of cgroup %s", name);
	pid = clone_into(cgroup);
	if (pid < 0 && errno == EBADF)
		pid = clone_and_enter(cgroup);
	ERROR_IF(pid < 0, "clone3 into cgroup %s", name);
	if (!pid) {
		write_fresh(pages);
		if (hold_us)
			usleep(hold_us);
		_exit(0);
	}
	ERROR_IF(waitpid(pid, &status, 0) != pid || status != 0, "child in cgroup %s", name);
	close(cgroup);
}

static int cgroup_dir = -1;

static void prepare_cgroups(void)
{
	struct clone_args none = {0};

	if (syscall(SYS_clone3, &none, 0) < 0 && errno == ENOSYS)
		skip("no clone3(2)");
	cgroup_dir = open(args[0] ? args[0] : "", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ERROR_IF(cgroup_dir < 0, "open of the cgroup folder");
}

/*
 * cgroups DIR COUNT N HOLD_US KEEP PREFIX: makes COUNT cgroups PREFIX0, PREFIX1, ... in DIR, one after the other; in
 * each a child does N user writes to missing pages and lives for HOLD_US more. Each is removed when its child is gone,
 * unless KEEP is 1. KEEP 2: all have one name, PREFIX.
 */
static long work_cgroups(void)
{
	long count = arg(1, 1), n = arg(2, 16), hold_us = arg(3, 0), keep = arg(4, 0);
	const char *prefix = args[1] && args[2] && args[3] && args[4] && args[5] ? args[5] : "c";
	char name[256];

	for (long i = 0; i < count; i++) {
		if (keep == 2)
			snprintf(name, sizeof(name), "%s", prefix);
		else
			snprintf(name, sizeof(name), "%s%ld", prefix, i);
		ERROR_IF(mkdirat(cgroup_dir, name, 0755), "mkdir of cgroup %s", name);
		live_and_die(cgroup_dir, name, n, hold_us);
		if (keep != 1)
			ERROR_IF(unlinkat(cgroup_dir, name, AT_REMOVEDIR), "rmdir of cgroup %s", name);
	}
	return count * n;
}

/* ---- frame ---- */

static const struct scenario {
	const char *name;
	void (*prepare)(void); /* before the memory is locked */
	void (*settle)(void);  /* after */
	long (*work)(void);
} scenarios[] = {
    {"write", NULL, NULL, work_write},
    {"fixed", prepare_fixed, NULL, work_fixed},
    {"file", prepare_file, NULL, work_file},
    {"filepages", prepare_file, NULL, work_filepages},
    {"exec", prepare_exec, NULL, work_exec},
    {"readinto", prepare_file, NULL, work_readinto},
    {"cow", NULL, settle_cow, work_cow},
    {"fork", NULL, NULL, work_fork},
    {"denied", prepare_denied, NULL, work_denied},
    {"toggle", prepare_toggle, NULL, work_toggle},
    {"threads", prepare_threads, NULL, work_threads},
    {"preempted", prepare_preempted, NULL, work_preempted},
    {"cgroups", prepare_cgroups, NULL, work_cgroups},
};

/* Formats into static memory and writes it whole: stdio could fault for a buffer of its own. */
static void report(int fd, const char *word, long operations, const struct rusage *before)
{
	static char line[256];
	struct rusage now;
	int n;

	getrusage(RUSAGE_SELF, &now);
	n = snprintf(line, sizeof(line), "%s %ld %ld %ld\n", word, operations, now.ru_minflt - before->ru_minflt,
		     now.ru_majflt - before->ru_majflt);
	ERROR_IF(write(fd, line, n) != n, "write");
}

static void report_ready(void)
{
	static char line[MAX_THREADS * 12];
	int n = snprintf(line, sizeof(line), "ready");

	for (int i = 0; i < n_threads; i++)
		n += snprintf(line + n, sizeof(line) - n, " %d", tids[i]);
	line[n++] = '\n';
	ERROR_IF(write(STDOUT_FILENO, line, n) != n, "write");
}

/* The stack that the work will need, so that it need not grow in between. */
static void __attribute__((noinline)) grow_stack(void)
{
	volatile char deep[256 * 1024];

	for (size_t i = 0; i < sizeof(deep); i += 1024)
		deep[i] = 1;
}

int main(int argc, char **argv)
{
	const struct scenario *s = NULL;
	struct rusage before;
	char go;

	page = sysconf(_SC_PAGESIZE);
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(scenarios) / sizeof(*scenarios); i++)
		if (!strcmp(argv[1], scenarios[i].name))
			s = &scenarios[i];
	if (!s) {
		fprintf(stderr, "usage: workload SCENARIO [ARGUMENTS], see the source\n");
		return 2;
	}
	args = argv + 2;
	if (s->prepare)
		s->prepare();
	grow_stack();
	if (mlockall(MCL_CURRENT))
		skip("memory cannot be locked");
	if (s->settle)
		s->settle();

	report_ready();
	while (read(STDIN_FILENO, &go, 1) == 1) {
		getrusage(RUSAGE_SELF, &before);
		report(STDOUT_FILENO, "done", s->work(), &before);
	}
	if (sharer > 0)
		kill(sharer, SIGKILL);
	return 0;
}
