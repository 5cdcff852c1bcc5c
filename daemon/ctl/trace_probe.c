/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/trace_probe.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/trace.skel.h"
#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"

#define RING_BYTES_PER_CPU (64u * 1024)
#define RING_BYTES_MIN (256u * 1024)
#define RING_BYTES_MAX (8u * 1024 * 1024)

struct trace_probe {
	struct trace_bpf *bpf;
	struct ring_buffer *ring;
	unsigned cpus;
	struct trace_cpu *per_cpu; /* room to read the map into */
	trace_record_fn record;    /* during a read */
	void *userdata;
	unsigned handled, handle_max;
};

DEFINE_CLEANUP(btf_done, struct btf *, btf__free)
DEFINE_CLEANUP(probe_done, struct trace_probe *, trace_probe_free)

/* ---- why not ---- */

static int libbpf_log(enum libbpf_print_level level, const char *format, va_list args)
{
	char text[1024];

	/* The reason is told by who asked; what libbpf says is detail. */
	if (log_get_max_level() < LOG_DEBUG)
		return 0;
	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	log_debug("libbpf: %s", text);
	return 0;
}

static bool locked_down(void)
{
	char text[128] = "";
	int fd auto_close = open("/sys/kernel/security/lockdown", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strstr(text, "[confidentiality]");
}

static int explain(int error, const char *what, struct trace_reason *reason)
{
	const char *hint = "";

	if (locked_down())
		hint =
		    "; the kernel is locked down (confidentiality), boot without lockdown=confidentiality to use BPF";
	else if (error == -EPERM)
		hint = "; root is needed, or CAP_BPF and CAP_PERFMON";
	snprintf(reason->text, sizeof(reason->text), "%s: %s%s", what, strerror(-error), hint);
	return error;
}

static bool has_tracepoint(const struct btf *btf, const char *typedef_name)
{
	return btf__find_by_name_kind(btf, typedef_name, BTF_KIND_TYPEDEF) >= 0;
}

/* Only to attach it tells: from where no direct call can be made into BPF, the program loads all the same. */
static bool can_trace_aborts(const struct btf *btf)
{
	struct bpf_program *program;
	struct bpf_link *link = NULL;
	struct trace_bpf *bpf;
	bool attached;

	if (btf__find_by_name_kind(btf, "do_mem_abort", BTF_KIND_FUNC) < 0)
		return false;
	bpf = trace_bpf__open();
	if (!bpf)
		return false;
	bpf_object__for_each_program(program, bpf->obj)
	    bpf_program__set_autoload(program, program == bpf->progs.trace_abort);
	if (trace_bpf__load(bpf) == 0)
		link = bpf_program__attach(bpf->progs.trace_abort);
	attached = link;
	bpf_link__destroy(link);
	trace_bpf__destroy(bpf);
	return attached;
}

int trace_probe_offers(struct trace_offer *ret, struct trace_reason *reason)
{
	struct btf *btf cleanup(btf_done) = NULL;

	libbpf_set_print(libbpf_log);
	btf = btf__load_vmlinux_btf();
	if (!btf) {
		snprintf(
		    reason->text, sizeof(reason->text),
		    "the kernel offers no type information (/sys/kernel/btf/vmlinux); it needs CONFIG_DEBUG_INFO_BTF");
		return -ENOENT;
	}
	ret->page_faults =
	    has_tracepoint(btf, "btf_trace_page_fault_user") && has_tracepoint(btf, "btf_trace_page_fault_kernel");
	ret->by_abort = !ret->page_faults && can_trace_aborts(btf);
	ret->page_faults |= ret->by_abort;
	ret->bad_accesses = has_tracepoint(btf, "btf_trace_signal_deliver");
	return 0;
}

/* ---- life ---- */

static void set_filters(struct trace_probe *p, const struct trace_probe_options *o)
{
	struct trace_bpf__rodata *knobs = p->bpf->rodata;
	long page = sysconf(_SC_PAGESIZE);

	knobs->only_tgid = o->only_tgid;
	knobs->not_tgid = (uint32_t)getpid();
	knobs->by_comm = o->only_comm;
	if (o->only_comm) {
		char comm[TRACE_COMM_BYTES] = "";

		memcpy(comm, o->only_comm, strnlen(o->only_comm, sizeof(comm) - 1));
		memcpy((void *)knobs->only_comm, comm, sizeof(comm));
	}
	knobs->by_cgroup = o->by_cgroup;
	knobs->period_ns = NSEC_PER_SEC / o->rate;
	knobs->burst_ns = knobs->period_ns * o->rate;
	knobs->page_shift = (uint32_t)__builtin_ctzl((unsigned long)page);
	knobs->abort_user = o->user;
	knobs->abort_kernel = o->kernel;
	bpf_program__set_autoload(p->bpf->progs.trace_user, o->user && !o->by_abort);
	bpf_program__set_autoload(p->bpf->progs.trace_kernel, o->kernel && !o->by_abort);
	bpf_program__set_autoload(p->bpf->progs.trace_abort, (o->user || o->kernel) && o->by_abort);
	bpf_program__set_autoload(p->bpf->progs.trace_bad, o->bad);
}

/* A power of two, and so a multiple of the page size, which it is larger than everywhere. */
static uint32_t ring_bytes(unsigned cpus)
{
	uint32_t bytes = RING_BYTES_MIN;

	while (bytes < RING_BYTES_MAX && bytes / RING_BYTES_PER_CPU < cpus)
		bytes *= 2;
	return bytes;
}

static int load(struct trace_probe *p, const struct trace_probe_options *o, bool with_map)
{
	int r;

	trace_bpf__destroy(p->bpf);
	p->bpf = trace_bpf__open();
	if (!p->bpf)
		return -errno;
	set_filters(p, o);
	p->bpf->rodata->with_map = with_map;
	bpf_program__set_autoload(p->bpf->progs.trace_made, o->bad && with_map);
	r = bpf_map__set_max_entries(p->bpf->maps.trace_ring, ring_bytes(p->cpus));
	/* The table of verdicts is made as it is filled; without a filter it stays empty. */
	return r < 0 ? r : trace_bpf__load(p->bpf);
}

static int on_record(void *userdata, void *data, size_t size)
{
	struct trace_probe *p = userdata;

	if (size >= sizeof(struct trace_record))
		p->record(data, p->userdata);
	/* libbpf counts the record as consumed and stops at the first negative answer. */
	return ++p->handled < p->handle_max ? 0 : -EAGAIN;
}

int trace_probe_new(const struct trace_probe_options *options, struct trace_probe **ret, struct trace_reason *reason)
{
	struct trace_probe *p cleanup(probe_done) = calloc(1, sizeof(*p));
	int r = libbpf_num_possible_cpus();

	libbpf_set_print(libbpf_log);
	if (p && r > 0) {
		p->cpus = (unsigned)r;
		p->per_cpu = calloc(p->cpus, sizeof(*p->per_cpu));
	}
	if (!p || !p->per_cpu)
		return explain(r < 0 ? r : -ENOMEM, "cannot set up the probe", reason);
	r = load(p, options, true);
	/* Without it an instruction's file is looked up when its record is read. */
	if (r < 0 && r != -EPERM && r != -ENOMEM)
		r = load(p, options, false);
	if (r < 0)
		return explain(r, "the kernel refuses the programs", reason);
	p->ring = ring_buffer__new(bpf_map__fd(p->bpf->maps.trace_ring), on_record, p, NULL);
	if (!p->ring)
		return explain(-errno, "cannot map the ring", reason);
	*ret = take_ptr(p);
	return 0;
}

int trace_probe_start(struct trace_probe *p, struct trace_reason *reason)
{
	int r = trace_bpf__attach(p->bpf);

	return r < 0 ? explain(r, "the kernel refuses to attach the programs", reason) : 0;
}

void trace_probe_stop(struct trace_probe *p)
{
	trace_bpf__detach(p->bpf);
}

struct trace_probe *trace_probe_free(struct trace_probe *p)
{
	if (p) {
		ring_buffer__free(p->ring);
		trace_bpf__destroy(p->bpf);
		free(p->per_cpu);
		free(p);
	}
	return NULL;
}

/* ---- records ---- */

int trace_probe_fd(const struct trace_probe *p)
{
	return ring_buffer__epoll_fd(p->ring);
}

int trace_probe_read(struct trace_probe *p, unsigned max, trace_record_fn record, void *userdata)
{
	int r;

	if (max == 0)
		return 0;
	p->record = record;
	p->userdata = userdata;
	p->handled = 0;
	p->handle_max = max;
	r = ring_buffer__consume(p->ring);
	return r < 0 && r != -EAGAIN ? r : (int)p->handled;
}

/* ---- cgroups ---- */

int trace_probe_cgroup(struct trace_probe *p, uint64_t id, bool wanted)
{
	uint8_t verdict = wanted;

	return bpf_map_update_elem(bpf_map__fd(p->bpf->maps.trace_cgroups), &id, &verdict, BPF_ANY) ? -errno : 0;
}

void trace_probe_forget_cgroup(struct trace_probe *p, uint64_t id)
{
	(void)bpf_map_delete_elem(bpf_map__fd(p->bpf->maps.trace_cgroups), &id);
}

/* ---- counts ---- */

static uint64_t misses(const struct bpf_program *program)
{
	struct bpf_prog_info info = {0};
	__u32 size = sizeof(info);
	int fd = bpf_program__fd(program);

	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0 ? info.recursion_misses : 0;
}

static void add_cpu(const struct trace_cpu *cpu, struct trace_counts *counts)
{
	for (unsigned type = 0; type < TRACE_TYPES; type++) {
		counts->left_out += cpu->left_out[TRACE_LANE(type, false)];
		counts->unjudged += cpu->left_out[TRACE_LANE(type, true)];
		counts->lost += cpu->lost[TRACE_LANE(type, false)] + cpu->lost[TRACE_LANE(type, true)];
	}
}

void trace_probe_counts(const struct trace_probe *p, struct trace_counts *ret)
{
	uint32_t zero = 0;

	*ret = (struct trace_counts){0};
	if (bpf_map_lookup_elem(bpf_map__fd(p->bpf->maps.trace_cpus), &zero, p->per_cpu) == 0)
		for (unsigned cpu = 0; cpu < p->cpus; cpu++)
			add_cpu(&p->per_cpu[cpu], ret);
	ret->missed = misses(p->bpf->progs.trace_user) + misses(p->bpf->progs.trace_kernel) +
		      misses(p->bpf->progs.trace_abort) + misses(p->bpf->progs.trace_bad);
}
