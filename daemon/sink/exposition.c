/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/exposition.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/sink/exposition_page.h"

static const struct family page_faults = {
    "faultd_page_faults", KIND_COUNTER, "cgroup, mode, access, kind",
    "Page faults of the tasks in a cgroup, those in its children not included, by class."};
static const struct family major_faults = {
    "faultd_major_page_faults", KIND_COUNTER, "cgroup",
    "Page faults that had to wait for storage; faultd_page_faults_total counts them as well."};
static const struct family fault_rate = {"faultd_page_fault_rate", KIND_GAUGE, "cgroup, window",
					 "Page faults per second over a sliding window."};
static const struct family cgroup_info = {
    "faultd_cgroup", KIND_INFO, "cgroup, unit, slice, runtime, container_id, pod_uid",
    "What a cgroup is, to be joined on the label cgroup; what does not apply is empty."};
static const struct family probe_info = {"faultd_probe", KIND_INFO, "probe, backend",
					 "What each probe counts with on this kernel."};
static const struct family vma_lock = {
    "faultd_vma_lock", KIND_COUNTER, "result: success, abort, retry, miss",
    "Page faults of the whole host by how they locked their mapping, since boot; only where the kernel counts them."};
static const struct family build_info = {"faultd_build", KIND_INFO, "version, arch, compiler",
					 "How the running program was built."};
static const struct family *const families[] = {&page_faults, &major_faults, &fault_rate, &cgroup_info,
						&probe_info,  &vma_lock,     &build_info};

/* A uint64_t of self_stats or process_stats. Neighbours with the same name are one family and the first one's help
 * counts. */
struct figure {
	struct family family; /* if the name ends in _seconds the number is in nanoseconds */
	const char *value;    /* of the family's only label; NULL: no label */
	size_t offset;
};

#define FIGURE_counter KIND_COUNTER
#define FIGURE_gauge KIND_GAUGE
#define FIGURE_seconds KIND_GAUGE
#define SELF_FIGURE(field, kind, name, label, value, help) \
	{{"faultd_" name, FIGURE_##kind, label, help}, value, offsetof(struct self_stats, field)},
#define PROCESS_FIGURE(field, kind, name, help) \
	{{"process_" name, kind, NULL, help}, "", offsetof(struct process_stats, field)},

static const struct figure self_figures[] = {SELF_METRICS(SELF_FIGURE)};
static const struct figure process_figures[] = {
    PROCESS_FIGURE(cpu_ns, KIND_COUNTER, "cpu_seconds", "Total user and system CPU time spent in seconds.")
	PROCESS_FIGURE(resident_bytes, KIND_GAUGE, "resident_memory_bytes", "Resident memory size in bytes.")
	    PROCESS_FIGURE(virtual_bytes, KIND_GAUGE, "virtual_memory_bytes", "Virtual memory size in bytes.")
		PROCESS_FIGURE(open_fds, KIND_GAUGE, "open_fds", "Number of open file descriptors.")
		    PROCESS_FIGURE(max_fds, KIND_GAUGE, "max_fds", "Maximum number of open file descriptors.")
			PROCESS_FIGURE(start_unix_ns, KIND_GAUGE, "start_time_seconds",
				       "Start time of the process since the Unix epoch in seconds.")};

/* ---- families ---- */

static void put_page_faults(const struct page *p)
{
	struct tail tails[FAULT_CLASSES_ALL];

	for (uint32_t class = 0; class < FAULT_CLASSES_ALL; class ++) {
		struct fault_class names = fault_class_names(class);
		struct tail *t = &tails[class];

		page_set_tail(t, snprintf(t->text, sizeof(t->text), "\",mode=\"%s\",access=\"%s\",kind=\"%s\"} ",
					  names.mode, names.access, names.kind));
	}
	page_head(p, &page_faults);
	for (const struct series *s = p->series; s < p->series + p->n_series; s++) {
		for (uint32_t class = 0; class < FAULT_CLASSES_ALL; class ++) {
			if (s->entry->faults[class] == 0)
				continue;
			page_cgroup(p, &page_faults, NULL, s);
			strbuf_add(p->out, tails[class].text, tails[class].len);
			strbuf_addu(p->out, s->entry->faults[class]);
			strbuf_addc(p->out, '\n');
		}
	}
}

static void put_major_faults(const struct page *p)
{
	page_head(p, &major_faults);
	for (const struct series *s = p->series; s < p->series + p->n_series; s++) {
		/* `other` shows 0 as well: a host without major faults is not a host that does not look. */
		if (!s->entry->has_major || (s->entry->major == 0 && s->at != 0))
			continue;
		page_cgroup(p, &major_faults, NULL, s);
		strbuf_adds(p->out, "\"} ");
		strbuf_addu(p->out, s->entry->major);
		strbuf_addc(p->out, '\n');
	}
}

static void put_cgroup_info(const struct page *p)
{
	page_head(p, &cgroup_info);
	for (const struct series *s = p->series; s < p->series + p->n_series; s++) {
		const struct identity *id = s->entry->identity;

		page_cgroup(p, &cgroup_info, NULL, s);
		page_label(p, "\",unit=\"", id->unit);
		page_label(p, ",slice=\"", id->slice);
		page_label(p, ",runtime=\"", id->runtime);
		page_label(p, ",container_id=\"", id->container_id);
		page_label(p, ",pod_uid=\"", id->pod_uid);
		strbuf_adds(p->out, "} 1\n");
	}
}

static void put_probe_info(const struct page *p)
{
	if (p->snapshot->n_probes == 0)
		return;
	page_head(p, &probe_info);
	for (size_t i = 0; i < p->snapshot->n_probes; i++) {
		page_name(p, &probe_info);
		page_label(p, "{probe=\"", p->snapshot->probes[i].probe);
		page_label(p, ",backend=\"", p->snapshot->probes[i].backend);
		strbuf_adds(p->out, "} 1\n");
	}
}

static void put_vma_lock(const struct page *p)
{
	const struct vma_lock_stats *v = p->snapshot->vma_lock;
	const struct {
		const char *result;
		uint64_t value;
	} results[] = {
	    {"success", v ? v->success : 0},
	    {"abort", v ? v->abort : 0},
	    {"retry", v ? v->retry : 0},
	    {"miss", v ? v->miss : 0},
	};

	if (!v)
		return;
	page_head(p, &vma_lock);
	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		page_name(p, &vma_lock);
		page_label(p, "{result=\"", results[i].result);
		strbuf_adds(p->out, "} ");
		strbuf_addu(p->out, results[i].value);
		strbuf_addc(p->out, '\n');
	}
}

static const char *build_arch(void)
{
#if defined(__x86_64__)
	return "x86_64";
#elif defined(__aarch64__)
	return "aarch64";
#elif defined(__riscv)
	return "riscv64";
#else
	return "unknown";
#endif
}

static void put_build_info(const struct page *p)
{
#ifdef __clang__
	const char *compiler = __VERSION__; /* begins with its name */
#else
	const char *compiler = "GCC " __VERSION__;
#endif
	page_head(p, &build_info);
	page_name(p, &build_info);
	page_label(p, "{version=\"", FAULTD_VERSION);
	page_label(p, ",arch=\"", build_arch());
	page_label(p, ",compiler=\"", compiler);
	strbuf_adds(p->out, "} 1\n");
}

/* ---- figures ---- */

static bool begins_family(const struct figure *figures, size_t at)
{
	return at == 0 || strcmp(figures[at].family.name, figures[at - 1].family.name) != 0;
}

static void put_figure(const struct page *p, const struct figure *f, uint64_t number)
{
	const char *unit = page_unit(f->family.name);

	page_name(p, &f->family);
	if (f->family.labels) {
		strbuf_addc(p->out, '{');
		strbuf_adds(p->out, f->family.labels);
		page_label(p, "=\"", f->value);
		strbuf_addc(p->out, '}');
	}
	strbuf_addc(p->out, ' ');
	if (unit && strcmp(unit, "seconds") == 0)
		page_fixed(p->out, number, NSEC_PER_SEC);
	else
		strbuf_addu(p->out, number);
	strbuf_addc(p->out, '\n');
}

static uint64_t figure_number(const struct figure *f, const void *base)
{
	uint64_t number;

	memcpy(&number, (const char *)base + f->offset, sizeof(number));
	return number;
}

static void put_self(const struct page *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(self_figures); i++) {
		if (begins_family(self_figures, i))
			page_head(p, &self_figures[i].family);
		put_figure(p, &self_figures[i], figure_number(&self_figures[i], p->snapshot->self));
	}
}

static void put_process(const struct page *p)
{
	if (!p->snapshot->process)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(process_figures); i++) {
		uint64_t number = figure_number(&process_figures[i], p->snapshot->process);

		if (number == 0) /* not known */
			continue;
		page_head(p, &process_figures[i].family);
		put_figure(p, &process_figures[i], number);
	}
}

/* ---- the page ---- */

const char *exposition_content_type(enum exposition_format format)
{
	return format == EXPOSITION_OPENMETRICS ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
						: "text/plain; version=0.0.4; charset=utf-8";
}

static int collect_series(struct page *p)
{
	const struct aggregate *a = p->snapshot->aggregate;
	size_t size = aggregate_size(a);

	p->series = calloc(size + 1, sizeof(*p->series));
	if (!p->series)
		return -ENOMEM;
	for (size_t at = 0; at < size; at++) {
		const struct cgroup_entry *e = aggregate_entry(a, at);
		struct series *s = &p->series[p->n_series];

		if (!aggregate_is_shown(a, at))
			continue;
		*s = (struct series){.entry = e, .at = at, .label = p->labels.len};
		page_escaped(&p->labels, e->identity->label);
		s->label_len = p->labels.len - s->label;
		p->n_series++;
	}
	return strbuf_error(&p->labels);
}

static void done_page(struct page *p)
{
	free(p->series);
	strbuf_done(&p->labels);
}

void exposition_render(const struct snapshot *s, enum exposition_format format, struct strbuf *out)
{
	cleanup(done_page) struct page p = {.out = out, .format = format, .snapshot = s};
	int r = collect_series(&p);

	if (r < 0) {
		out->error = r;
		return;
	}
	put_page_faults(&p);
	put_major_faults(&p);
	page_rates(&p, &fault_rate, NULL, aggregate_rate);
	page_bad_accesses(&p);
	put_cgroup_info(&p);
	put_probe_info(&p);
	put_vma_lock(&p);
	put_build_info(&p);
	put_self(&p);
	put_process(&p);
	if (format == EXPOSITION_OPENMETRICS)
		strbuf_adds(out, "# EOF\n");
}

/* ---- the reference ---- */

static void put_row(struct strbuf *out, const struct family *f, const char *labels)
{
	strbuf_addf(out, "| `%s%s` | %s | %s | %s |\n", f->name, page_suffix(f->kind),
		    page_type_word(f->kind, EXPOSITION_OPENMETRICS), labels, f->help);
}

/* One row per family; the values of its label are listed. */
static void put_rows(struct strbuf *out, const struct figure *figures, size_t n)
{
	for (size_t i = 0, next; i < n; i = next) {
		auto_strbuf labels = {0};

		if (figures[i].family.labels)
			strbuf_addf(&labels, "%s: ", figures[i].family.labels);
		for (next = i; next < n && (next == i || !begins_family(figures, next)); next++)
			if (figures[i].family.labels)
				strbuf_addf(&labels, "%s%s", next == i ? "" : ", ", figures[next].value);
		put_row(out, &figures[i].family, labels.data ? labels.data : "");
	}
}

void exposition_reference(struct strbuf *out)
{
	static const char intro[] =
	    "# Metrics\n\n"
	    "What `/metrics` shows, as Prometheus text 0.0.4 or as OpenMetrics 1.0.0, whichever the client prefers. "
	    "This page is\n"
	    "made from the program's own tables.\n\n"
	    "- Counts belong to the cgroup that the faulting task is in, not to its parents: a sum over all cgroups "
	    "counts each\n"
	    "  fault once. The cgroup `other` holds what has no series of its own: cgroups that are excluded, over the "
	    "limit or\n"
	    "  gone. The sum over all cgroups never goes back.\n"
	    "- Only classes that occurred and cgroups that faulted are shown, and `other` always. A new series "
	    "therefore begins\n"
	    "  above zero and `rate()` misses its first value; `faultd_page_fault_rate` does not.\n"
	    "- A cgroup that is gone is shown once more with its last counts, then its totals and rates go on in "
	    "`other`. One\n"
	    "  that is recreated under the same path before it left continues its series; later it begins anew, like "
	    "any\n"
	    "  counter after a restart, as does one that a reload had excluded and another reload includes again.\n"
	    "- `unknown` as mode, access or kind: the probe in use cannot tell (see `faultd_probe_info`).\n"
	    "- `faultd_page_fault_rate` is exact over the intervals that make up the window and shown to six "
	    "decimals.\n"
	    "- Info metrics are gauges with the value 1 in text 0.0.4. To add a cgroup's unit to any other metric:\n"
	    "  `rate(faultd_page_faults_total[5m]) * on(cgroup) group_left(unit) faultd_cgroup_info`.\n"
	    "- No sample carries a timestamp, and none an address or a command line.\n\n";
	static const char bad_intro[] =
	    "Deliveries of SIGSEGV and SIGBUS, and of the signals of `bad_access.also`, in the cgroup of the "
	    "victim.\n\n"
	    "- `outcome`: `handled` if a handler was entered, `fatal` if the process ended. A stack overflow whose "
	    "handler finds no stack, "
	    "and a\n"
	    "  handler that raises its signal again for the default action, are one `fatal` of the first code.\n"
	    "- `code`: as in `si_code`, in lower case without prefix; `kernel` where the kernel gives none (x86: an "
	    "address that is none); "
	    "`sent`\n"
	    "  if a process sent the signal, whatever code it claims; `other` for codes that are not known.\n"
	    "- Runtimes take handled SIGSEGV by the thousand (JVM, Go, .NET): alert on `outcome=\"fatal\"`.\n"
	    "- A first crash makes a new series, which `rate()` and `increase()` cannot see: alert on "
	    "`faultd_bad_access_rate`, or on\n"
	    "  `faultd_bad_accesses_total unless faultd_bad_accesses_total offset 5m`.\n\n";
	static const char table[] = "| metric | type | labels | meaning |\n|---|---|---|---|\n";

	strbuf_adds(out, intro);
	strbuf_adds(out, "## Faults\n\n");
	strbuf_adds(out, table);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++)
		put_row(out, families[i], families[i]->labels);
	strbuf_adds(out, "\n## Bad accesses\n\n");
	strbuf_adds(out, bad_intro);
	strbuf_adds(out, table);
	for (size_t i = 0; i < n_bad_families; i++)
		put_row(out, bad_families[i], bad_families[i]->labels);
	strbuf_adds(out, "\n## The daemon itself\n\n");
	strbuf_adds(out, table);
	put_rows(out, self_figures, ARRAY_SIZE(self_figures));
	strbuf_adds(out, "\n## The process\n\nFigures that the kernel does not give are left out.\n\n");
	strbuf_adds(out, table);
	put_rows(out, process_figures, ARRAY_SIZE(process_figures));
}
