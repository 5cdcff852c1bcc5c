/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a page fault costs, and what a probe adds to it. bench.py calls this and makes sense of the numbers.
 *
 *   compare ROUNDS PAGES [RUNG]
 *                         each round, in random order: no probe, an empty program, faultd's programs, those with times; prints
 *                         "WORK VARIANT ROUND NS_PER_FAULT" for each. One process, one CPU. RUNG is tracepoint, fentry or perf.
 *   touch BATCHES PAGES   prints "WORK NS_PER_FAULT" for each work, the median of the batches, with whatever is attached.
 *   seed RUNS PAGES       maps and writes PAGES pages; prints the milliseconds of each run.
 *   hold                  attaches the empty program until standard input ends; prints "ready".
 *   visit DIR COUNT       tours the cgroups DIR/c0 .. c(COUNT-1) once per second, writing 16 fresh pages in each.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "daemon/source/probe.h"
#include "tests/bench/empty.skel.h"

#define MAX_BATCHES 1001
/* Short ones, so that the timer's interrupt spoils few: the median leaves those out. */
#define COMPARE_BATCHES 21

static long page;

static void __attribute__((noreturn)) fail(const char *what)
{
	fprintf(stderr, "fault_cost: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pin(void)
{
	cpu_set_t set;
	int cpu;

	if (sched_getaffinity(0, sizeof(set), &set))
		fail("sched_getaffinity");
	/* The last one: interrupts gather on the first. */
	for (cpu = CPU_SETSIZE - 1; cpu > 0 && !CPU_ISSET(cpu, &set); cpu--)
		;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static char *map_pages(size_t pages)
{
	char *p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap");
	madvise(p, pages * page, MADV_NOHUGEPAGE);
	return p;
}

/* ---- the works ---- */

enum work { READ_ZERO, WRITE_FRESH, SIGNAL, WORKS };
static const char *const work_names[WORKS] = {"read", "write", "signal"};

/* In the manner of lmbench's lat_sig prot: an access that is not allowed, again and again, each time into a handler and back. */
static volatile long signals_left;
static char *forbidden;

static void on_signal(int signo)
{
	if (--signals_left == 0 && mprotect(forbidden, page, PROT_READ | PROT_WRITE))
		_exit(1);
}

static double ns_per_signal(size_t signals)
{
	struct sigaction action = {.sa_handler = on_signal};
	uint64_t began;

	if (!forbidden)
		forbidden = map_pages(1);
	if (sigaction(SIGSEGV, &action, NULL) || mprotect(forbidden, page, PROT_NONE))
		fail("a page that is not to be had");
	signals_left = (long)signals;
	began = now_ns();
	*(volatile char *)forbidden = 1;
	return (double)(now_ns() - began) / (double)signals;
}

/* A read maps the shared zero page: the cheapest fault, and the steadiest. A write allocates and clears a page. */
static double ns_per_fault(enum work work, char *p, size_t pages)
{
	uint64_t began;
	char sum = 0;

	if (work == SIGNAL)
		return ns_per_signal(pages);
	madvise(p, pages * page, MADV_DONTNEED);
	began = now_ns();
	if (work == READ_ZERO)
		for (size_t i = 0; i < pages; i++)
			sum += *(volatile char *)(p + i * page);
	else
		for (size_t i = 0; i < pages; i++)
			*(volatile char *)(p + i * page) = 1;
	return (double)(now_ns() - began) / (double)pages + 0 * sum;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile_of_batches(enum work work, char *p, size_t pages, int batches, double quantile)
{
	double ns[MAX_BATCHES];

	ns_per_fault(work, p, pages); /* warm */
	for (int i = 0; i < batches; i++)
		ns[i] = ns_per_fault(work, p, pages);
	qsort(ns, batches, sizeof(*ns), compare_doubles);
	return ns[(int)(batches * quantile)];
}

/* ---- probes ---- */

enum variant { NOTHING, EMPTY, FAULTD, LATENCY, VARIANTS };
static const char *const variant_names[VARIANTS] = {"none", "empty", "faultd", "latency"};

static const char *const rung_names[PROBE_NONE] = {"tracepoint", "fentry", "perf"};
static enum probe_backend rung = PROBE_TRACEPOINT;

static struct empty_bpf *empty;
static int empty_fd = -1; /* of the perf event */
static struct probe *probe, *with_latency;

static struct probe *open_probe(bool latency)
{
	struct probe_options options = {
	    .backend = rung,
	    .max_cgroups = 1024,
	    .memory_bytes = 64u << 20,
	    .bad_signals = 1u << BAD_SEGV | 1u << BAD_BUS | 1u << BAD_ILL | 1u << BAD_FPE,
	};
	struct probe_reason reason;
	struct probe *opened;

	options.bad_latency = latency;
	errno = -probe_new(&options, &opened, &reason);
	if (errno) {
		fprintf(stderr, "fault_cost: faultd's programs: %s\n", reason.text);
		exit(1);
	}
	probe_detach(opened);
	return opened;
}

static void open_empty(void)
{
	empty = empty_bpf__open();
	if (!empty)
		fail("the empty program does not open");
	bpf_program__set_autoload(empty->progs.empty_user, rung == PROBE_TRACEPOINT);
	bpf_program__set_autoload(empty->progs.empty_kern, rung == PROBE_TRACEPOINT);
	bpf_program__set_autoload(empty->progs.empty_abort, rung == PROBE_FENTRY);
	bpf_program__set_autoload(empty->progs.empty_event, rung == PROBE_PERF);
	if (empty_bpf__load(empty))
		fail("the empty program does not load");
}

/* On this CPU only: there all is measured. */
static int attach_event(void)
{
	struct perf_event_attr attr = {
	    .type = PERF_TYPE_SOFTWARE,
	    .size = sizeof(attr),
	    .config = PERF_COUNT_SW_PAGE_FAULTS,
	    .sample_period = 1,
	};

	empty_fd = (int)syscall(SYS_perf_event_open, &attr, -1, sched_getcpu(), -1, PERF_FLAG_FD_CLOEXEC);
	if (empty_fd < 0 || ioctl(empty_fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(empty->progs.empty_event)) < 0 ||
	    ioctl(empty_fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	return 0;
}

static int attach_empty(void)
{
	return rung == PROBE_PERF ? attach_event() : empty_bpf__attach(empty);
}

static void detach_empty(void)
{
	empty_bpf__detach(empty);
	if (empty_fd >= 0)
		close(empty_fd);
	empty_fd = -1;
}

static void open_probes(void)
{
	open_empty();
	probe = open_probe(false);
	with_latency = open_probe(true);
}

/* Attaching patches the kernel's text and waits for RCU, which leaves caches cold; so nothing is attached in the same
 * way. */
static void attach(enum variant v)
{
	if (v == FAULTD || v == LATENCY)
		errno = -probe_attach(v == FAULTD ? probe : with_latency);
	else
		errno = -attach_empty();
	if (errno)
		fail("attach");
	if (v == NOTHING)
		detach_empty();
}

static void detach(enum variant v)
{
	if (v == EMPTY)
		detach_empty();
	else if (v == FAULTD || v == LATENCY)
		probe_detach(v == FAULTD ? probe : with_latency);
}

static void shuffle(enum variant *order)
{
	for (int i = VARIANTS - 1; i > 0; i--) {
		int j = (int)(random() % (i + 1));
		enum variant t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
}

static void add_growth(uint64_t id, const struct growth *growth, void *userdata)
{
	uint64_t *sum = userdata;

	for (uint32_t c = 0; growth->faults && c < FAULT_CLASSES; c++)
		*sum += growth->faults[c];
}

static int do_compare(long rounds, long pages)
{
	enum variant order[VARIANTS] = {NOTHING, EMPTY, FAULTD, LATENCY};
	uint64_t counted = 0, expected = (uint64_t)(rounds * pages * WORKS * COMPARE_BATCHES);
	char *p = map_pages(pages);

	srandom((unsigned)now_ns());
	open_probes();
	for (long round = 0; round < rounds; round++) {
		shuffle(order);
		for (int i = 0; i < VARIANTS; i++) {
			attach(order[i]);
			for (enum work work = 0; work < WORKS; work++)
				printf("%s %s %ld %.2f\n", work_names[work], variant_names[order[i]], round,
				       quantile_of_batches(work, p, pages, COMPARE_BATCHES, 0.5));
			detach(order[i]);
		}
	}
	/* A comparison is worth nothing if faultd's programs did not count. */
	probe_collect(probe, add_growth, &counted);
	if (counted < expected) {
		fprintf(stderr, "fault_cost: faultd counted %llu faults of at least %llu\n",
			(unsigned long long)counted, (unsigned long long)expected);
		return 1;
	}
	probe_free(probe);
	probe_free(with_latency);
	empty_bpf__destroy(empty);
	return 0;
}

/* ---- the rest ---- */

static int do_serve(long batches, long pages)
{
	char *p = map_pages(pages), line[16];

	while (fgets(line, sizeof(line), stdin)) {
		double read_ns = quantile_of_batches(READ_ZERO, p, pages, (int)batches, 0.1);

		double write_ns = quantile_of_batches(WRITE_FRESH, p, pages, (int)batches, 0.1);

		printf("%.2f %.2f %.2f\n", read_ns, write_ns, quantile_of_batches(SIGNAL, p, pages, (int)batches, 0.1));
		fflush(stdout);
	}
	return 0;
}

static int do_seed(long runs, long pages)
{
	for (long i = 0; i < runs; i++) {
		uint64_t began = now_ns();
		char *p = map_pages(pages);

		for (long at = 0; at < pages; at++)
			*(volatile char *)(p + at * page) = 1;
		printf("%.3f\n", (double)(now_ns() - began) / 1e6);
		munmap(p, pages * page);
	}
	return 0;
}

static int do_hold(void)
{
	char c;

	open_empty();
	errno = -attach_empty();
	if (errno)
		fail("the empty program");
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	empty_bpf__destroy(empty);
	return 0;
}

static int enter(const char *dir, long number)
{
	char path[4096];
	int fd, r;

	snprintf(path, sizeof(path), "%s/c%ld/cgroup.procs", dir, number);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = write(fd, "0", 1) == 1 ? 0 : -errno;
	close(fd);
	return r;
}

static int do_visit(const char *dir, long count)
{
	char *p = map_pages(16);

	for (;;) {
		uint64_t began = now_ns(), took;

		for (long i = 0; i < count; i++) {
			if (enter(dir, i) < 0)
				return 0; /* they are being removed: the end */
			ns_per_fault(WRITE_FRESH, p, 16);
		}
		took = now_ns() - began;
		if (took < 1000000000u)
			usleep((useconds_t)((1000000000u - took) / 1000));
	}
}

static int usage(void)
{
	fprintf(stderr, "usage: fault_cost compare ROUNDS PAGES [tracepoint|fentry|perf], serve|seed N PAGES, hold, "
			"visit DIR COUNT; see the source\n");
	return 2;
}

int main(int argc, char **argv)
{
	long first = argc > 2 ? atol(argv[2]) : 0, second = argc > 3 ? atol(argv[3]) : 0;

	page = sysconf(_SC_PAGESIZE);
	if (argc == 2 && !strcmp(argv[1], "hold"))
		return do_hold();
	for (enum probe_backend b = 0; argc == 5 && b < PROBE_NONE; b++)
		if (!strcmp(argv[1], "compare") && !strcmp(argv[4], rung_names[b])) {
			rung = b;
			argc = 4;
		}
	if (argc != 4 || second <= 0)
		return usage();
	if (!strcmp(argv[1], "visit"))
		return do_visit(argv[2], second);
	if (first <= 0)
		return usage();
	pin();
	if (!strcmp(argv[1], "compare"))
		return do_compare(first, second);
	if (!strcmp(argv[1], "serve"))
		return do_serve(first < MAX_BATCHES ? first : MAX_BATCHES, second);
	if (!strcmp(argv[1], "seed"))
		return do_seed(first, second);
	return usage();
}
