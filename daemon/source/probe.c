/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/source/probe.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/source/probe_state.h"

/* ENOTSUPP, which the kernel has and the C library has not. */
#define ENOTSUPP_OF_KERNEL 524

/* ---- why not ---- */

/* A verifier's report runs to megabytes; its verdict stands at the end. */
#define LIBBPF_LINES_MAX 40

static int libbpf_log(enum libbpf_print_level level, const char *format, va_list args)
{
	auto_free char *text = NULL;
	char *from, *line;
	int lines = 0;

	/* A rung that does not load is no error of the daemon's: what libbpf says is detail. */
	if (log_get_max_level() < LOG_DEBUG)
		return 0;
	if (vasprintf(&text, format, args) < 0) {
		text = NULL;
		return 0;
	}
	for (from = text + strlen(text); from > text; from--)
		if (from[-1] == '\n' && from[0] && ++lines == LIBBPF_LINES_MAX)
			break;
	if (from > text)
		log_debug("libbpf: (the beginning of what follows is left out)");
	while ((line = strsep(&from, "\n")))
		if (*line)
			log_debug("libbpf: %s", line);
	return 0;
}

static bool locked_down(void)
{
	char text[128] = "";
	auto_close int fd = -EBADF;

	fd = open("/sys/kernel/security/lockdown", O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strstr(text, "[confidentiality]");
}

int probe_explain(int error, const char *what, struct probe_reason *reason)
{
	const char *hint = "";

	if (locked_down())
		hint =
		    "; the kernel is locked down (confidentiality), boot without lockdown=confidentiality to use BPF";
	else if (error == -EPERM)
		hint = "; CAP_BPF and CAP_PERFMON are needed (or root), and on kernels before 5.11 a sufficient "
		       "RLIMIT_MEMLOCK";
	else if (error == -EACCES) /* bpf(2) says so of programs, not of people */
		hint = "; its verifier's reasons are logged with log.level: debug";
	else if (error == -ENOMEM)
		hint = "; lower cgroups.max or cgroups.memory, or raise the service's memory limit";
	snprintf(reason->text, sizeof(reason->text), "%s: %s%s", what, strerror(-error), hint);
	return error;
}

static bool has_fault_tracepoints(const struct btf *btf)
{
	return btf__find_by_name_kind(btf, "btf_trace_page_fault_user", BTF_KIND_TYPEDEF) >= 0 &&
	       btf__find_by_name_kind(btf, "btf_trace_page_fault_kernel", BTF_KIND_TYPEDEF) >= 0;
}

/* Whether the kernel has the tracepoint is a question to its BTF: the errno of a failed load depends on capabilities.
 */
static int check_kernel(const struct btf *btf, const struct probe_options *options, struct probe_reason *reason)
{
	if (!btf) {
		snprintf(
		    reason->text, sizeof(reason->text),
		    "the kernel offers no type information (/sys/kernel/btf/vmlinux); it needs CONFIG_DEBUG_INFO_BTF");
		return -ENOENT;
	}
	if (options->backend == PROBE_TRACEPOINT && !has_fault_tracepoints(btf)) {
		snprintf(reason->text, sizeof(reason->text),
			 "the kernel has no tracepoints exceptions:page_fault_user and page_fault_kernel (no arm64 "
			 "kernel has)");
		return -ENOENT;
	}
	if (options->backend == PROBE_FENTRY && btf__find_by_name_kind(btf, "do_mem_abort", BTF_KIND_FUNC) < 0) {
		snprintf(reason->text, sizeof(reason->text), "the kernel has no function do_mem_abort (arm64 has)");
		return -ENOENT;
	}
	return 0;
}

/* The width of do_mem_abort's second argument: the rest of the register is not part of it. */
static uint64_t esr_mask_of(const struct btf *btf)
{
	int id = btf ? btf__find_by_name_kind(btf, "do_mem_abort", BTF_KIND_FUNC) : -1;
	const struct btf_type *function = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	const struct btf_type *prototype = function ? btf__type_by_id(btf, function->type) : NULL;
	int64_t size = -1;

	if (prototype && btf_is_func_proto(prototype) && btf_vlen(prototype) > 1)
		size = btf__resolve_size(btf, btf_params(prototype)[1].type);
	return size == 4 ? UINT32_MAX : UINT64_MAX;
}

/* ---- rings ---- */

int probe_ring_open(struct probe_ring *r, struct bpf_map *map, ring_buffer_sample_fn record, void *userdata)
{
	r->ring = ring_buffer__new(bpf_map__fd(map), record, userdata, NULL);
	return r->ring ? 0 : -errno;
}

/* libbpf counts the record as consumed and stops at the first negative answer: the loop's timers get their turn. */
int probe_ring_next(struct probe_ring *r)
{
	return ++r->handled < r->handle_max ? 0 : -EAGAIN;
}

int probe_ring_dispatch(struct probe_ring *r, const void *handlers, unsigned max)
{
	int n;

	if (!r->ring || max == 0)
		return 0;
	r->handlers = handlers;
	r->handled = 0;
	r->handle_max = max;
	n = ring_buffer__consume(r->ring);
	r->handlers = NULL;
	return n < 0 && n != -EAGAIN ? n : (int)r->handled;
}

int probe_ring_fd(const struct probe_ring *r)
{
	return r->ring ? ring_buffer__epoll_fd(r->ring) : -EBADF;
}

void probe_ring_close(struct probe_ring *r)
{
	ring_buffer__free(r->ring);
	*r = (struct probe_ring){0};
}

/* ---- sizes ---- */

static uint64_t bytes_per_slot(const struct probe *p, const struct probe_options *options)
{
	/* Owner, free list, and hash entries of about 80 bytes with their buckets. */
	uint64_t bytes = 8 + 4 + FAULT_HASH_FACTOR * 80;

	if (p->counts_faults)
		bytes += (uint64_t)p->cpus * sizeof(struct fault_cell) + p->cpus / 8;
	if (options->bad_signals)
		bytes += sizeof(struct bad_cell);
	return p->latency ? bytes + sizeof(struct bad_latency) : bytes;
}

/* Some slots more than cgroups, for the dead that drain and for those about to be folded. */
static void choose_size(struct probe *p, const struct probe_options *options)
{
	uint64_t wanted = (uint64_t)options->max_cgroups + options->max_cgroups / 8 + 32;
	uint64_t affordable = options->memory_bytes / bytes_per_slot(p, options);

	p->cut = affordable < wanted;
	if (p->cut)
		wanted = affordable > 2 ? affordable : 2;
	p->slots = (uint32_t)wanted;
	p->max_ids = p->slots * FAULT_HASH_FACTOR;
	p->memory_bytes = bytes_per_slot(p, options) * p->slots + LIFE_RING_BYTES;
	if (options->bad_signals)
		p->memory_bytes += CRASH_RING_BYTES;
}

static int size_maps(struct probe *p)
{
	struct page_fault_bpf *f = p->faults;
	int r;

	f->rodata->nr_slots = p->slots;
	r = bpf_map__set_max_entries(f->maps.slot_owner, p->slots);
	if (r == 0 && p->counts_faults)
		r = bpf_map__set_max_entries(f->maps.fault_cells, p->cpus * p->slots);
	if (r == 0)
		r = bpf_map__set_max_entries(f->maps.slot_by_cgroup, p->max_ids);
	if (r == 0)
		r = bpf_map__set_max_entries(f->maps.free_slots, p->slots);
	if (r == 0 && p->counts_faults)
		r = bpf_map__set_max_entries(f->maps.slot_touched, p->cpus * FAULT_TOUCHED_WORDS(p->slots));
	return r;
}

int probe_map_memory(struct bpf_map *map, struct mapping *ret)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (size_t)bpf_map__max_entries(map) * ((bpf_map__value_size(map) + 7) & ~7u);
	void *data;

	bytes = (bytes + page - 1) / page * page;
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	if (data == MAP_FAILED)
		return -errno;
	*ret = (struct mapping){.data = data, .bytes = bytes};
	return 0;
}

void probe_unmap_memory(struct mapping *m)
{
	if (m->data)
		munmap(m->data, m->bytes);
	*m = (struct mapping){0};
}

static int map_all(struct probe *p)
{
	int r = probe_map_memory(p->faults->maps.fault_cells, &p->cells);

	if (r == 0)
		r = probe_map_memory(p->faults->maps.slot_owner, &p->owner);
	if (r == 0)
		r = probe_map_memory(p->faults->maps.slot_touched, &p->touched);
	if (r == 0)
		r = probe_map_memory(p->faults->maps.drops, &p->drops);
	return r;
}

/* ---- map operations of the slot book ---- */

static int result(int r)
{
	return r ? -errno : 0;
}

static int hash_get(void *userdata, uint64_t id, uint32_t *ret_slot)
{
	struct probe *p = userdata;
	return result(bpf_map_lookup_elem(bpf_map__fd(p->faults->maps.slot_by_cgroup), &id, ret_slot));
}

static int hash_set(void *userdata, uint64_t id, uint32_t slot)
{
	struct probe *p = userdata;
	return result(bpf_map_update_elem(bpf_map__fd(p->faults->maps.slot_by_cgroup), &id, &slot, BPF_ANY));
}

static int hash_delete(void *userdata, uint64_t id)
{
	struct probe *p = userdata;
	return result(bpf_map_delete_elem(bpf_map__fd(p->faults->maps.slot_by_cgroup), &id));
}

static int push_free(void *userdata, uint32_t slot)
{
	struct probe *p = userdata;
	return result(bpf_map_update_elem(bpf_map__fd(p->faults->maps.free_slots), NULL, &slot, BPF_ANY));
}

static int open_book(struct probe *p)
{
	struct slots_memory memory = {
	    .cpus = p->counts_faults ? p->cpus : 0,
	    .slots = p->slots,
	    .cells = p->cells.data,
	    .cache = p->faults->bss->slot_cache,
	    .owner = p->owner.data,
	    .touched = p->touched.data,
	    .bad = p->bad_cells.data,
	    .bad_touched = p->bad_touched.data,
	    .latency = p->bad_latency.data,
	};
	struct slots_ops ops = {
	    .hash_get = hash_get,
	    .hash_set = hash_set,
	    .hash_delete = hash_delete,
	    .push_free = push_free,
	    .userdata = p,
	};
	return slots_new(&memory, &ops, &p->book);
}

/* ---- life of the object ---- */

/* On x86 the tracepoints fire with interrupts off. */
static bool is_preemptible(enum probe_backend backend)
{
#ifdef __x86_64__
	return backend != PROBE_TRACEPOINT;
#else
	return true;
#endif
}

/* Of the programs at one place that for the hierarchy in use, if the place is in use. */
static void choose_pair(struct bpf_program *v2, struct bpf_program *memory, bool used, bool by_memory)
{
	bpf_program__set_autoload(v2, used && !by_memory);
	bpf_program__set_autoload(memory, used && by_memory);
}

static void choose_programs(struct probe *p)
{
	bool by_memory = p->by_memory;

	choose_pair(p->faults->progs.page_fault_user, p->faults->progs.fault_user_mem, p->backend == PROBE_TRACEPOINT,
		    by_memory);
	choose_pair(p->faults->progs.page_fault_kern, p->faults->progs.fault_kern_mem, p->backend == PROBE_TRACEPOINT,
		    by_memory);
	choose_pair(p->faults->progs.mem_abort, p->faults->progs.abort_mem, p->backend == PROBE_FENTRY, by_memory);
	choose_pair(p->faults->progs.perf_fault, p->faults->progs.perf_fault_mem, p->backend == PROBE_PERF, by_memory);
}

static int load(struct probe *p, const struct probe_options *options, struct probe_reason *reason)
{
	int r;

	p->faults = page_fault_bpf__open();
	if (!p->faults)
		return probe_explain(-errno, "cannot open the BPF object", reason);
	choose_size(p, options);
	choose_programs(p);
	p->faults->rodata->preemptible = is_preemptible(p->backend);
	p->faults->rodata->period = options->perf_period ? options->perf_period : 1;
	p->faults->rodata->esr_mask = p->esr_mask;
	r = size_maps(p);
	if (r == 0)
		r = page_fault_bpf__load(p->faults);
	if (r < 0)
		return probe_explain(r,
				     p->counts_faults ? "the kernel refuses the page-fault programs"
						      : "the kernel refuses the counters",
				     reason);
	r = probe_bad_start(p, options);
	if (r < 0 && !p->counts_faults) {
		*reason = p->bad_reason;
		return r;
	}
	r = map_all(p);
	if (r == 0)
		r = open_book(p);
	return r < 0 ? probe_explain(r, "cannot set up the counters", reason) : 0;
}

static int attach_faults(struct probe *p, struct probe_reason *reason)
{
	int r;

	if (!p->counts_faults)
		return 0;
	if (p->backend == PROBE_PERF)
		return probe_perf_attach(p, reason);
	r = page_fault_bpf__attach(p->faults);
	if (r == -ENOTSUPP_OF_KERNEL) {
		snprintf(reason->text, sizeof(reason->text),
			 "the kernel cannot call BPF programs from its functions (arm64: from 6.4 on, with "
			 "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)");
		return -ENOENT;
	}
	return r < 0 ? probe_explain(r, "the kernel refuses to attach the page-fault programs", reason) : 0;
}

/* Births first, so that every cgroup whose faults are counted can be named. */
static int start(struct probe *p, const struct probe_options *options, struct probe_reason *reason)
{
	int r = probe_life_start(p, options);

	if (r < 0) {
		/* Without these records cgroups are found by looking for them. */
		log_warning_errno(
		    r,
		    "cgroup tracepoints cannot be used (%s), ignoring: a cgroup that lives for less than an interval "
		    "counts as unknown",
		    strerror(-r));
		probe_life_stop(p);
	}
	r = attach_faults(p, reason);
	if (r < 0)
		return r;
	if (p->bad && probe_bad_attach(p) < 0 && !p->counts_faults) {
		*reason = p->bad_reason;
		return -ENOENT;
	}
	return 0;
}

int probe_new(const struct probe_options *options, struct probe **ret, struct probe_reason *reason)
{
	struct probe *p;
	struct btf *btf;
	bool has_faults;
	uint64_t esr_mask;
	int r;

	libbpf_set_print(libbpf_log);
	btf = btf__load_vmlinux_btf();
	r = check_kernel(btf, options, reason);
	has_faults = btf && has_fault_tracepoints(btf);
	esr_mask = esr_mask_of(btf);
	btf__free(btf);
	if (r < 0)
		return r;

	p = calloc(1, sizeof(*p));
	if (!p)
		return probe_explain(-ENOMEM, "cannot set up the probe", reason);
	p->backend = options->backend;
	p->perf_period = options->perf_period ? options->perf_period : 1;
	p->esr_mask = esr_mask;
	p->by_memory = options->memory_hierarchy != 0;
	p->counts_faults = options->backend != PROBE_NONE;
	p->latency = options->bad_signals && options->bad_latency && has_faults;
	r = libbpf_num_possible_cpus();
	p->cpus = r > 0 ? (uint32_t)r : 1;
	if (p->cpus > FAULT_CPUS_MAX)
		r = probe_explain(-E2BIG, "more CPUs than the programs are built for", reason);
	else
		r = load(p, options, reason);
	if (r == 0)
		r = start(p, options, reason);
	if (r < 0) {
		probe_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct probe *probe_free(struct probe *p)
{
	if (!p)
		return NULL;
	probe_perf_detach(p);
	probe_life_stop(p);
	probe_bad_stop(p);
	slots_free(p->book);
	probe_unmap_memory(&p->cells);
	probe_unmap_memory(&p->owner);
	probe_unmap_memory(&p->touched);
	probe_unmap_memory(&p->drops);
	page_fault_bpf__destroy(p->faults);
	free(p);
	return NULL;
}

int probe_attach(struct probe *p)
{
	struct probe_reason reason;
	int r = attach_faults(p, &reason);

	if (r == 0 && p->bad && probe_bad_attach(p) < 0 && !p->counts_faults)
		r = -ENOENT; /* p->bad_reason says why */
	return r;
}

void probe_detach(struct probe *p)
{
	page_fault_bpf__detach(p->faults);
	probe_perf_detach(p);
	if (p->bad)
		probe_bad_detach(p);
}

/* ---- counters ---- */

void probe_size(const struct probe *p, struct probe_size *ret)
{
	*ret = (struct probe_size){
	    .slots = p->slots,
	    .used = slots_used(p->book),
	    .cpus = p->cpus,
	    .memory_bytes = p->memory_bytes,
	    .max_ids = p->max_ids,
	    .cut = p->cut,
	};
}

void probe_collect(struct probe *p, probe_growth_fn growth, void *userdata)
{
	slots_collect(p->book, growth, userdata);
}

int probe_release(struct probe *p, uint64_t id)
{
	return slots_release(p->book, id);
}

int probe_fold(struct probe *p, uint64_t id)
{
	return slots_fold(p->book, id);
}

int probe_unfold(struct probe *p, uint64_t id)
{
	return slots_unfold(p->book, id);
}

void probe_reclaim(struct probe *p, probe_growth_fn growth, void (*drained)(uint64_t id, void *userdata),
		   void *userdata)
{
	probe_perf_refresh(p);
	slots_reclaim(p->book, growth, drained, userdata);
}

static void add_program_stats(const struct bpf_program *program, struct probe_stats *stats)
{
	struct bpf_prog_info info = {0};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) < 0)
		return;
	stats->recursion_misses += info.recursion_misses;
	stats->run_ns += info.run_time_ns;
	stats->runs += info.run_cnt;
}

void probe_stats(const struct probe *p, struct probe_stats *ret)
{
	const uint64_t *drops = p->drops.data;
	struct bpf_program *program;

	*ret = (struct probe_stats){0};
	for (uint32_t reason = 0; reason < FAULT_DROPS; reason++)
		ret->drops[reason] = __atomic_load_n(&drops[reason], __ATOMIC_RELAXED);
	ret->cpu_gaps = p->perf_gaps;
	/* Those that are not loaded have no descriptor and add nothing. */
	bpf_object__for_each_program(program, p->faults->obj) add_program_stats(program, ret);
	if (p->bad) {
		add_program_stats(p->bad->progs.bad_generated, ret);
		add_program_stats(p->bad->progs.bad_delivered, ret);
	}
}
