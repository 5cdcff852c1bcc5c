/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultctl trace: options and the loop. One poll waits for records, for room on standard output, for signals and for
 * the end of the process that is traced; nothing blocks but a write that poll called possible.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "bpf/fault_abi.h"
#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/glob.h"
#include "daemon/base/strbuf.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/symbols.h"
#include "daemon/ctl/trace_cgroups.h"
#include "daemon/ctl/trace_line.h"
#include "daemon/ctl/trace_probe.h"
#include "daemon/exit.h"

#define RATE_DEFAULT 500
#define RATE_MAX 100000
/* Records per turn: between two turns signals are heard. */
#define RECORDS_PER_TURN 256
/* What poll() calls writable takes this much without blocking, a pipe too. */
#define WRITE_BYTES 4096

struct options {
	const char *cgroup, *comm;
	uint32_t pid, rate;
	uint64_t lines; /* 0: without end */
	bool user, kernel, bad, json;
};

struct tracer {
	const struct options *options;
	struct trace_probe *probe;
	struct symbols *symbols;
	struct trace_cgroups *cgroups; /* NULL: no names of cgroups are wanted, or there are none */
	int signals, process;          /* -EBADF: none */
	struct strbuf out;             /* lines not written yet, from out_at */
	size_t out_at;
	uint64_t shown, unnamed; /* records of cgroups that were gone before they could be matched with the glob */
	struct trace_counts told;
	uint64_t told_ns, walked_ns;
	bool stopping; /* detached; what the ring holds is still shown */
	bool done, reader_gone;
	int exit_code;
};

/* ---- command line ---- */

static void print_help(void)
{
	printf("faultctl trace [OPTION...]\n"
	       "Shows page faults and bad accesses (SIGSEGV, SIGBUS, SIGILL, SIGFPE) of this host as they happen, a "
	       "line each:\n"
	       "command, process (/thread), CPU, time (CLOCK_MONOTONIC), event, address, instruction, raw error code "
	       "and its\n"
	       "meaning, function or file. Runs as root and needs no daemon. Its own faults are not shown.\n"
	       "\n"
	       "      --cgroup GLOB  only cgroups whose path matches, as in the configuration: /system.slice/*, "
	       "/**/x.service;\n"
	       "                     the line then ends in the path\n"
	       "      --pid N        only process N, until it ends\n"
	       "      --comm S       only threads with that command name (the kernel keeps 15 bytes)\n"
	       "      --user         only what happens in user mode\n"
	       "      --kernel       only page faults that the kernel takes, as in read(2) into a fresh page\n"
	       "      --bad          only bad accesses\n"
	       "  -n N               end after N lines\n"
	       "      --rate R       at most R page faults and R bad accesses per second on each CPU, and as many at "
	       "once\n"
	       "                     (default %d, at most %d); what is beyond is counted and told on standard error\n"
	       "      --json         an object a line\n"
	       "  -h, --help\n"
	       "\n"
	       "Addresses of the kernel are shown as they are, since who traces is root on this host and asks for "
	       "them: mind\n"
	       "where you paste the output. Nothing is stored or sent.\n",
	       RATE_DEFAULT, RATE_MAX);
}

static int usage(const char *what, const char *value, const char *allowed)
{
	fprintf(stderr, "faultctl trace: %s '%s': %s\n", what, value, allowed);
	return FAULTD_USAGE;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || value < 1 || value > max)
		return false;
	*ret = value;
	return true;
}

enum { CGROUP = 256, PID, COMM, USER, KERNEL, BAD, RATE, JSON };

/* -1: go on; else the exit code. */
static int take_option(int option, struct options *o)
{
	uint64_t value;
	const char *wrong;

	switch (option) {
	case CGROUP:
		wrong = glob_check(optarg);
		if (wrong)
			return usage("--cgroup", optarg, wrong);
		o->cgroup = optarg;
		break;
	case PID:
		if (!parse_number(optarg, INT_MAX, &value))
			return usage("--pid", optarg, "the number of a process is wanted");
		o->pid = (uint32_t)value;
		break;
	case COMM:
		if (!*optarg)
			return usage("--comm", optarg, "a command name is wanted");
		o->comm = optarg;
		break;
	case USER:
		o->user = true;
		break;
	case KERNEL:
		o->kernel = true;
		break;
	case BAD:
		o->bad = true;
		break;
	case 'n':
		if (!parse_number(optarg, UINT64_MAX, &o->lines))
			return usage("-n", optarg, "a number of lines from 1 is wanted");
		break;
	case RATE:
		if (!parse_number(optarg, RATE_MAX, &value))
			return usage("--rate", optarg, "records per second and CPU are wanted, 1 to 100000");
		o->rate = (uint32_t)value;
		break;
	case JSON:
		o->json = true;
		break;
	case 'h':
		print_help();
		return FAULTD_OK;
	default:
		fprintf(stderr, "Try faultctl trace --help.\n");
		return FAULTD_USAGE;
	}
	return -1;
}

static int parse_options(int argc, char **argv, struct options *ret)
{
	static const struct option options[] = {
	    {"cgroup", required_argument, NULL, CGROUP},
	    {"pid", required_argument, NULL, PID},
	    {"comm", required_argument, NULL, COMM},
	    {"user", no_argument, NULL, USER},
	    {"kernel", no_argument, NULL, KERNEL},
	    {"bad", no_argument, NULL, BAD},
	    {"rate", required_argument, NULL, RATE},
	    {"json", no_argument, NULL, JSON},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	int option, r = -1;

	*ret = (struct options){.rate = RATE_DEFAULT};
	while (r < 0 && (option = getopt_long(argc, argv, "n:h", options, NULL)) != -1)
		r = take_option(option, ret);
	if (r < 0 && optind < argc)
		r = usage("argument", argv[optind], "trace takes options only, see --help");
	if (r < 0 && ret->user && ret->kernel)
		r = usage("option", "--kernel", "not together with --user: without both, both are shown");
	if (r < 0 && ret->bad && ret->kernel)
		r = usage("option", "--kernel", "not together with --bad: bad accesses are of user mode");
	return r;
}

/* ---- what is to be seen ---- */

static int exit_code_of(int error)
{
	if (error == -EPERM) /* EACCES is the verifier's */
		return FAULTD_NO_PERMISSION;
	return error == -ENOMEM ? FAULTD_NO_RESOURCE : FAULTD_NO_SUPPORT;
}

static int complain(int code, const char *text)
{
	fprintf(stderr, "faultctl trace: %s\n", text);
	return code;
}

/* The programs see processes by the host's numbers; so must we, or we would name the wrong ones and trace ourselves. */
static bool in_host_namespace(void)
{
	const ino_t initial = 0xeffffffc; /* PROC_PID_INIT_INO */
	struct stat st;

	return stat("/proc/self/ns/pid", &st) < 0 || st.st_ino == initial;
}

/* -1: go on. Narrows `probe` to what the kernel has. */
static int choose_events(const struct options *o, struct trace_probe_options *probe)
{
	struct trace_offer offer = {0};
	struct trace_reason reason;
	int r = trace_probe_offers(&offer, &reason);

	if (r < 0)
		return complain(exit_code_of(r), reason.text);
	probe->user = offer.page_faults && !o->bad && !o->kernel;
	probe->kernel = offer.page_faults && !o->bad && !o->user;
	probe->by_abort = offer.by_abort;
	probe->bad = offer.bad_accesses && !o->kernel;
	if (!offer.page_faults && !o->bad)
		fprintf(stderr,
			"faultctl trace: this kernel has no tracepoints exceptions:page_fault_user and "
			"page_fault_kernel (no arm64 kernel has), nor can programs be called from do_mem_abort "
			"(arm64 kernels from 6.4 on can)%s\n",
			probe->bad ? ": only bad accesses are shown" : "");
	if (!offer.bad_accesses && !o->kernel)
		fprintf(stderr, "faultctl trace: this kernel has no tracepoint signal:signal_deliver%s\n",
			probe->user || probe->kernel ? ": only page faults are shown" : "");
	return probe->user || probe->kernel || probe->bad ? -1 : FAULTD_NO_SUPPORT;
}

/* -1: go on. */
static int open_process(struct tracer *t)
{
	char text[96];

	if (!t->options->pid)
		return -1;
	t->process = (int)syscall(SYS_pidfd_open, t->options->pid, 0);
	if (t->process >= 0 || errno == ENOSYS)
		return -1;
	if (errno == ESRCH)
		snprintf(text, sizeof(text), "--pid %u: there is no such process", t->options->pid);
	else if (errno == EINVAL || errno == ENOENT)
		snprintf(text, sizeof(text), "--pid %u: this is a thread, the number of its process is wanted",
			 t->options->pid);
	else
		snprintf(text, sizeof(text), "--pid %u: %s", t->options->pid, strerror(errno));
	return complain(FAULTD_FAILED, text);
}

static void on_verdict(uint64_t id, bool wanted, void *userdata)
{
	struct tracer *t = userdata;

	/* No room: its records come unjudged. */
	(void)trace_probe_cgroup(t->probe, id, wanted);
}

static void on_forget(uint64_t id, void *userdata)
{
	struct tracer *t = userdata;

	trace_probe_forget_cgroup(t->probe, id);
}

/* -1: go on. */
static int open_cgroups(struct tracer *t)
{
	struct trace_cgroups_ops ops = {.verdict = on_verdict, .forget = on_forget, .userdata = t};
	const char *glob = t->options->cgroup;
	char text[160];
	int r;

	if (!glob && !t->options->json)
		return -1;
	r = trace_cgroups_new("/proc/self/mountinfo", glob, &ops, &t->cgroups);
	if (!glob)
		return -1; /* then there are no names */
	if (r == 0)
		r = trace_cgroups_refresh(t->cgroups);
	if (r == 0)
		fprintf(stderr, "faultctl trace: no cgroup matches %s yet\n", glob);
	if (r >= 0)
		return -1;
	if (r == -ENOENT)
		return complain(FAULTD_NO_SUPPORT, "--cgroup: no cgroup v2 hierarchy is mounted");
	snprintf(text, sizeof(text), "--cgroup: cannot walk the hierarchy: %s", strerror(-r));
	return complain(r == -ENOMEM ? FAULTD_NO_RESOURCE : FAULTD_FAILED, text);
}

/* -1: go on. */
static int open_signals(struct tracer *t)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return t->signals < 0 ? complain(FAULTD_FAILED, strerror(errno)) : -1;
}

/* -1: go on. */
static int open_all(struct tracer *t)
{
	const struct options *o = t->options;
	struct trace_probe_options probe = {
	    .only_tgid = o->pid,
	    .only_comm = o->comm,
	    .by_cgroup = o->cgroup,
	    .rate = o->rate,
	};
	struct trace_reason reason;
	int r;

	if (!in_host_namespace())
		return complain(FAULTD_NO_SUPPORT,
				"processes are seen as the host numbers them: run this in the host's pid "
				"namespace (nsenter --target 1 --pid, or a container with the host's)");
	r = choose_events(o, &probe);
	if (r >= 0)
		return r;
	r = trace_probe_new(&probe, &t->probe, &reason);
	if (r < 0)
		return complain(exit_code_of(r), reason.text);
	if (symbols_new("/proc", &t->symbols) < 0)
		return complain(FAULTD_NO_RESOURCE, strerror(ENOMEM));
	r = open_process(t);
	if (r < 0)
		r = open_cgroups(t);
	if (r < 0)
		r = open_signals(t);
	if (r >= 0)
		return r;
	r = trace_probe_start(t->probe, &reason);
	return r < 0 ? complain(exit_code_of(r), reason.text) : -1;
}

static void close_all(struct tracer *t)
{
	trace_probe_free(t->probe);
	symbols_free(t->symbols);
	trace_cgroups_free(t->cgroups);
	close_fd(t->signals);
	close_fd(t->process);
	strbuf_done(&t->out);
}

/* ---- records ---- */

static void find_place(struct tracer *t, const struct trace_record *r, struct symbol_place *ret)
{
	struct symbol_hint hint = {.module = r->module, .offset = r->module_offset};
	bool asked = symbols_kernel_error(t->symbols);

	if (r->mode != FAULT_KERNEL) {
		symbols_user(t->symbols, r->tgid, r->ip, r->flags & TRACE_HAS_MAP ? &hint : NULL, clock_monotonic_ns(),
			     ret);
		return;
	}
	symbols_kernel(t->symbols, r->ip, ret);
	if (!asked && symbols_kernel_error(t->symbols))
		fprintf(stderr, "faultctl trace: functions of the kernel have no names: %s\n",
			symbols_kernel_error(t->symbols) == -ENODATA ? "it hides them (kernel.kptr_restrict)"
								     : strerror(-symbols_kernel_error(t->symbols)));
}

static void on_record(const struct trace_record *r, void *userdata)
{
	struct tracer *t = userdata;
	uint64_t now_ns = clock_monotonic_ns();
	const char *cgroup = NULL;
	struct symbol_place place;

	if (t->options->lines && t->shown >= t->options->lines)
		return;
	if (r->flags & TRACE_CHECK_CGROUP && !trace_cgroups_wanted(t->cgroups, r->cgroup_id, now_ns)) {
		t->unnamed += !trace_cgroups_name(t->cgroups, r->cgroup_id, now_ns);
		return;
	}
	find_place(t, r, &place);
	if (t->cgroups)
		cgroup = trace_cgroups_name(t->cgroups, r->cgroup_id, now_ns);
	if (t->options->json)
		trace_line_json(&t->out, fault_arch_here(), r, &place, cgroup);
	else
		trace_line_text(&t->out, fault_arch_here(), r, &place, cgroup);
	t->shown++;
}

/* From now on only what has happened is shown. */
static void stop(struct tracer *t)
{
	trace_probe_stop(t->probe);
	t->stopping = true;
}

static void read_records(struct tracer *t)
{
	int r = trace_probe_read(t->probe, RECORDS_PER_TURN, on_record, t);

	if (r < 0 || strbuf_error(&t->out)) {
		t->exit_code = complain(FAULTD_FAILED, r < 0 ? strerror(-r) : strerror(ENOMEM));
		t->done = true;
	} else if (t->options->lines && t->shown >= t->options->lines) {
		if (!t->stopping)
			stop(t);
		t->done = t->out.len == t->out_at;
	} else if (t->stopping && r == 0) {
		t->done = t->out.len == t->out_at;
	}
}

static void write_lines(struct tracer *t)
{
	size_t n = t->out.len - t->out_at;
	ssize_t written = write(STDOUT_FILENO, t->out.data + t->out_at, n < WRITE_BYTES ? n : WRITE_BYTES);

	if (written > 0)
		t->out_at += (size_t)written;
	if (t->out_at == t->out.len) {
		strbuf_reset(&t->out);
		t->out_at = 0;
	}
	if (written >= 0 || errno == EAGAIN || errno == EINTR)
		return;
	t->reader_gone = errno == EPIPE;
	if (!t->reader_gone)
		t->exit_code = complain(FAULTD_FAILED, strerror(errno));
	t->done = true;
}

/* ---- what was not shown ---- */

static void tell_growth(struct tracer *t, uint64_t now_ns)
{
	struct trace_counts now;

	if (now_ns - t->told_ns < NSEC_PER_SEC)
		return;
	t->told_ns = now_ns;
	trace_probe_counts(t->probe, &now);
	if (now.left_out != t->told.left_out || now.lost != t->told.lost)
		fprintf(stderr,
			"faultctl trace: not shown in the last second: %" PRIu64 " left out by --rate, %" PRIu64
			" lost\n",
			now.left_out - t->told.left_out, now.lost - t->told.lost);
	t->told = now;
}

static void tell_sum(struct tracer *t)
{
	struct trace_counts now;

	trace_probe_counts(t->probe, &now);
	fprintf(stderr,
		"faultctl trace: %" PRIu64 " shown, %" PRIu64 " left out by --rate %u, %" PRIu64
		" lost (the ring was full)",
		t->shown, now.left_out, t->options->rate, now.lost);
	if (t->unnamed + now.unjudged)
		fprintf(stderr,
			", %" PRIu64
			" of any cgroups that --cgroup could not be matched with (too new for their number, or gone)",
			t->unnamed + now.unjudged);
	if (now.missed)
		fprintf(stderr, ", %" PRIu64 " missed (of any process, while a CPU was at work on another)",
			now.missed);
	fputc('\n', stderr);
}

/* ---- the loop ---- */

static void on_signal(struct tracer *t)
{
	struct signalfd_siginfo info;

	if (read(t->signals, &info, sizeof(info)) != sizeof(info))
		return;
	/* The second one does not wait for a reader that does not read. */
	if (t->stopping)
		t->done = true;
	else
		stop(t);
}

static void on_tick(struct tracer *t)
{
	uint64_t now_ns = clock_monotonic_ns();

	tell_growth(t, now_ns);
	if (!t->cgroups || now_ns - t->walked_ns < trace_cgroups_pause_ns(t->cgroups))
		return;
	(void)trace_cgroups_refresh(t->cgroups);
	t->walked_ns = clock_monotonic_ns();
}

static void turn(struct tracer *t)
{
	bool pending = t->out.len > t->out_at;
	struct pollfd fds[] = {
	    {.fd = t->signals, .events = POLLIN},
	    {.fd = STDOUT_FILENO, .events = pending ? POLLOUT : 0},
	    /* What is not written yet is bounded: the ring waits, and what finds no room there is counted. */
	    {.fd = pending || t->stopping ? -1 : trace_probe_fd(t->probe), .events = POLLIN},
	    {.fd = t->stopping ? -1 : t->process, .events = POLLIN},
	};
	int timeout_ms = t->stopping && !pending ? 0 : 250;

	if (poll(fds, ARRAY_SIZE(fds), timeout_ms) < 0 && errno != EINTR) {
		t->exit_code = complain(FAULTD_FAILED, strerror(errno));
		t->done = true;
		return;
	}
	if (fds[0].revents)
		on_signal(t);
	if (fds[1].revents & (POLLERR | POLLNVAL)) {
		t->reader_gone = t->done = true;
		return;
	}
	if (fds[3].revents && !t->stopping)
		stop(t);
	if (pending && fds[1].revents)
		write_lines(t);
	else if (!pending)
		read_records(t);
	on_tick(t);
}

static int run(struct tracer *t)
{
	fprintf(
	    stderr,
	    "faultctl trace: tracing, at most %u page faults and bad accesses each per second and CPU; Ctrl-C ends\n",
	    t->options->rate);
	t->told_ns = t->walked_ns = clock_monotonic_ns();
	while (!t->done)
		turn(t);
	if (!t->reader_gone)
		tell_sum(t);
	return t->exit_code;
}

int ctl_trace(int argc, char **argv)
{
	struct options options;
	struct tracer t cleanup(close_all) = {
	    .options = &options,
	    .signals = -EBADF,
	    .process = -EBADF,
	    .exit_code = FAULTD_OK,
	};
	int r = parse_options(argc, argv, &options);

	if (r < 0)
		r = open_all(&t);
	return r < 0 ? run(&t) : r;
}
