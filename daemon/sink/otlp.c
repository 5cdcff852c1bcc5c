/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told in metrics. Attributes are packed once per cgroup and once per class, not once per point: a point is
 * then a copy of some hundred bytes instead of thirty small messages. otlp_pack.c packs the pieces, otlp_batch.c
 * strings them together.
 */
#include "daemon/sink/otlp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/duration.h"
#include "daemon/base/strbuf.h"
#include "daemon/sink/otlp_batch.h"
#include "daemon/sink/otlp_pack.h"

struct metric {
	const char *name;
	const char *unit;
	const char *description;
	uint32_t data;
};

static const struct metric page_faults = {"faultd.page_faults", "{fault}", "Page faults by cgroup and class.",
					  OTLP_DATA_SUM};
static const struct metric major_faults = {"faultd.major_page_faults", "{fault}",
					   "Page faults that had to wait for I/O, by cgroup.", OTLP_DATA_SUM};
static const struct metric bad_accesses = {"faultd.bad_accesses", "{access}",
					   "Bad accesses by cgroup, signal, code and outcome.", OTLP_DATA_SUM};
static const struct metric bad_rate = {"faultd.bad_access.rate", "{access}/s",
				       "Bad accesses per second over a sliding window.", OTLP_DATA_GAUGE};
static const struct metric fault_rate = {"faultd.page_fault.rate", "{fault}/s",
					 "Page faults per second over a sliding window.", OTLP_DATA_GAUGE};

/* A cgroup that is shown; its attributes are packed at `offset` of encoder.identities. */
struct series {
	const struct cgroup_entry *entry;
	size_t at;
	size_t offset, len;
};

struct encoder {
	const struct snapshot *snapshot;
	struct otlp_writer writer;
	struct strbuf identities;
	struct series *series;
	size_t n_series;
};

static struct otlp_span whole(const struct strbuf *b)
{
	return (struct otlp_span){b->data, b->len};
}

/* ---- attributes ---- */

static void pack_identity(struct strbuf *b, const struct identity *identity)
{
	struct otlp_attributes a;

	a.n = 0;
	otlp_add_identity(&a, identity);
	otlp_pack_point_attributes(b, &a);
}

static void pack_class(struct strbuf *b, uint32_t class)
{
	struct fault_class names = fault_class_names(class);
	struct otlp_attributes a;

	a.n = 0;
	otlp_add_text(&a, "fault.mode", names.mode);
	otlp_add_text(&a, "fault.access", names.access);
	otlp_add_text(&a, "fault.kind", names.kind);
	otlp_pack_point_attributes(b, &a);
}

static void pack_bad_class(struct strbuf *b, enum bad_outcome outcome, uint32_t class)
{
	struct bad_class names = bad_class_names(class);
	struct otlp_attributes a;

	a.n = 0;
	otlp_add_text(&a, "faultd.signal", names.signal);
	otlp_add_text(&a, "faultd.code", names.code);
	otlp_add_text(&a, "faultd.outcome", bad_outcome_name(outcome));
	otlp_pack_point_attributes(b, &a);
}

/* Packs one attribute, or none if `key` is NULL. */
static void pack_attribute(struct strbuf *b, const char *key, const char *value)
{
	struct otlp_attributes a;

	a.n = 0;
	if (key)
		otlp_add_text(&a, key, value);
	otlp_pack_point_attributes(b, &a);
}

static void pack_window(struct strbuf *b, uint64_t length_ns)
{
	char length[DURATION_TEXT_BYTES];

	pack_attribute(b, "window", duration_text(length_ns, length));
}

/* ---- metrics and points ---- */

static void open_metric(struct encoder *e, const struct metric *metric)
{
	otlp_writer_close_metric(&e->writer);
	otlp_pack_metric_head(&e->writer.metric_head, metric->name, metric->unit, metric->description);
	e->writer.data_field = metric->data;
	if (metric->data == OTLP_DATA_SUM)
		otlp_pack_sum_tail(&e->writer.data_tail);
}

static void add_point(struct encoder *e, struct otlp_span fixed, struct otlp_span identity, struct otlp_span more)
{
	struct otlp_span parts[] = {fixed, identity, more};

	otlp_writer_add_point(&e->writer, parts, ARRAY_SIZE(parts));
}

static void add_count(struct encoder *e, uint64_t start_unix_ns, uint64_t value, struct otlp_span identity,
		      struct otlp_span more)
{
	uint64_t time = e->snapshot->now_unix_ns;
	uint8_t fixed[OTLP_POINT_FIXED_BYTES];
	size_t n;

	/* A wall clock that was set back meanwhile must not make a series end before it began. */
	n = otlp_pack_count(fixed, start_unix_ns < time ? start_unix_ns : time, time,
			    value <= INT64_MAX ? (int64_t)value : INT64_MAX);
	add_point(e, (struct otlp_span){fixed, n}, identity, more);
}

static void add_rate(struct encoder *e, double value, struct otlp_span identity, struct otlp_span more)
{
	uint8_t fixed[OTLP_POINT_FIXED_BYTES];
	size_t n = otlp_pack_rate(fixed, e->snapshot->now_unix_ns, value);

	add_point(e, (struct otlp_span){fixed, n}, identity, more);
}

/* ---- what is told about cgroups ---- */

static int collect_series(struct encoder *e)
{
	const struct aggregate *a = e->snapshot->aggregate;
	size_t size = aggregate_size(a);

	e->series = calloc(size ? size : 1, sizeof(*e->series));
	if (!e->series)
		return -ENOMEM;
	for (size_t at = 0; at < size; at++) {
		const struct cgroup_entry *entry = aggregate_entry(a, at);
		struct series *s = &e->series[e->n_series];

		if (!aggregate_is_shown(a, at))
			continue;
		*s = (struct series){.entry = entry, .at = at, .offset = e->identities.len};
		pack_identity(&e->identities, entry->identity);
		s->len = e->identities.len - s->offset;
		e->n_series++;
	}
	return strbuf_error(&e->identities);
}

static struct otlp_span identity_of(const struct encoder *e, const struct series *s)
{
	return (struct otlp_span){e->identities.data + s->offset, s->len};
}

static void add_class(struct encoder *e, uint32_t class)
{
	auto_strbuf attributes = {0};

	pack_class(&attributes, class);
	if (!otlp_writer_ok(&e->writer, &attributes))
		return;
	for (const struct series *s = e->series; s < e->series + e->n_series; s++)
		if (s->entry->faults[class])
			add_count(e, s->entry->start_unix_ns, s->entry->faults[class], identity_of(e, s),
				  whole(&attributes));
}

static void add_page_faults(struct encoder *e)
{
	open_metric(e, &page_faults);
	for (uint32_t class = 0; class < FAULT_CLASSES_ALL; class ++)
		add_class(e, class);
}

static void add_major_faults(struct encoder *e)
{
	open_metric(e, &major_faults);
	for (const struct series *s = e->series; s < e->series + e->n_series; s++) {
		/* `other` shows 0 as well: a host without major faults is not a host that does not look. */
		if (s->entry->has_major && (s->entry->major || s->at == 0))
			add_count(e, s->entry->start_unix_ns, s->entry->major, identity_of(e, s),
				  (struct otlp_span){0});
	}
}

/* Bad accesses are rare: attributes are packed only for combinations that some cgroup has. */
static void add_bad_class(struct encoder *e, enum bad_outcome outcome, uint32_t class)
{
	auto_strbuf attributes = {0};

	for (const struct series *s = e->series; s < e->series + e->n_series; s++) {
		uint64_t count = s->entry->bad ? s->entry->bad->count[outcome][class] : 0;

		if (!count)
			continue;
		if (!attributes.len)
			pack_bad_class(&attributes, outcome, class);
		if (!otlp_writer_ok(&e->writer, &attributes))
			return;
		add_count(e, s->entry->start_unix_ns, count, identity_of(e, s), whole(&attributes));
	}
}

static void add_bad_accesses(struct encoder *e)
{
	open_metric(e, &bad_accesses);
	for (uint32_t class = 0; class < BAD_CLASSES; class ++)
		for (uint32_t outcome = 0; outcome < BAD_OUTCOMES; outcome++)
			add_bad_class(e, outcome, class);
}

static double fault_rate_of(const struct encoder *e, const struct series *s, size_t w)
{
	return aggregate_rate(e->snapshot->aggregate, s->at, w);
}

static double bad_rate_of(const struct encoder *e, const struct series *s, size_t w)
{
	const struct aggregate *a = e->snapshot->aggregate;

	return aggregate_bad_rate(a, s->at, BAD_HANDLED, w) + aggregate_bad_rate(a, s->at, BAD_FATAL, w);
}

static bool always(const struct series *s)
{
	return true;
}

/* `other` always has counts. */
static bool had_bad_access(const struct series *s)
{
	return s->entry->bad;
}

/* A point per window and cgroup that `has` it. */
static void add_rates(struct encoder *e, const struct metric *metric, bool (*has)(const struct series *),
		      double (*rate)(const struct encoder *, const struct series *, size_t))
{
	const struct aggregate *a = e->snapshot->aggregate;

	open_metric(e, metric);
	for (size_t w = 0; w < aggregate_windows(a); w++) {
		auto_strbuf attributes = {0};

		pack_window(&attributes, aggregate_window_ns(a, w));
		if (!otlp_writer_ok(&e->writer, &attributes))
			return;
		for (const struct series *s = e->series; s < e->series + e->n_series; s++)
			if (has(s))
				add_rate(e, rate(e, s, w), identity_of(e, s), whole(&attributes));
	}
}

/* ---- what is told about the daemon ---- */

struct self_metric {
	const char *family;
	const char *label;
	const char *value;
	const char *help;
	size_t offset;
	uint32_t data;
};

#define DATA_counter OTLP_DATA_SUM
#define DATA_gauge OTLP_DATA_GAUGE
#define DATA_seconds OTLP_DATA_GAUGE /* kept in ns: would need a conversion, and none is shipped */
#define SELF_ENTRY(field, kind, name, label, value, help) \
	{name, label, value, help, offsetof(struct self_stats, field), DATA_##kind},
static const struct self_metric self_metrics[] = {SELF_METRICS(SELF_ENTRY)};

/* Families that tell a reader at the collector whether the figures can be trusted, each by its first figure; the scrape
 * endpoint has all. */
static const struct {
	size_t first;
	const char *unit;
} shipped[] = {
    {offsetof(struct self_stats, drop_no_slot), "1"},
    {offsetof(struct self_stats, recursion_misses), "{run}"},
    {offsetof(struct self_stats, cgroups_live), "{cgroup}"},
    {offsetof(struct self_stats, cgroups_max), "{cgroup}"},
    {offsetof(struct self_stats, config_ok), "1"},
    {offsetof(struct self_stats, drop_queue_full), "{data_point}"},
    {offsetof(struct self_stats, drop_log_queue_full), "{log_record}"},
    {offsetof(struct self_stats, crash_kept), "{record}"},
    {offsetof(struct self_stats, ticks_late), "{tick}"},
};

static void add_self_point(struct encoder *e, const struct self_metric *m)
{
	/* The daemon's own counters began when the table of cgroups did. */
	const struct cgroup_entry *other = aggregate_entry(e->snapshot->aggregate, 0);
	auto_strbuf attributes = {0};
	uint64_t value;

	memcpy(&value, (const char *)e->snapshot->self + m->offset, sizeof(value));
	pack_attribute(&attributes, m->label, m->value);
	if (otlp_writer_ok(&e->writer, &attributes))
		add_count(e, m->data == OTLP_DATA_SUM && other ? other->start_unix_ns : 0, value, whole(&attributes),
			  (struct otlp_span){0});
}

static void add_self_family(struct encoder *e, size_t first, const char *unit)
{
	const struct self_metric *m = self_metrics, *end = self_metrics + ARRAY_SIZE(self_metrics);
	const char *family;
	char name[64];

	while (m->offset != first)
		m++;
	family = m->family;
	snprintf(name, sizeof(name), "%s.%s", OTLP_SERVICE_NAME, family);
	open_metric(e, &(struct metric){name, unit, m->help, m->data});
	for (; m < end && strcmp(m->family, family) == 0; m++)
		add_self_point(e, m);
}

/* ---- all of it ---- */

static void encoder_done(struct encoder *e)
{
	otlp_writer_done(&e->writer);
	strbuf_done(&e->identities);
	free(e->series);
}

int otlp_encode(const struct snapshot *s, const struct otlp_host *host, size_t max_bytes, struct otlp_batch **ret,
		size_t *ret_n, size_t *ret_dropped)
{
	cleanup(encoder_done) struct encoder e = {.snapshot = s, .writer.max_bytes = max_bytes};
	int r;

	otlp_pack_resource(&e.writer.resource, host);
	otlp_pack_scope(&e.writer.scope, host);
	if (!otlp_writer_ok(&e.writer, &e.writer.resource) || !otlp_writer_ok(&e.writer, &e.writer.scope))
		return -ENOMEM;
	r = collect_series(&e);
	if (r < 0)
		return r;
	add_page_faults(&e);
	add_major_faults(&e);
	add_rates(&e, &fault_rate, always, fault_rate_of);
	if (s->bad_signals) {
		add_bad_accesses(&e);
		add_rates(&e, &bad_rate, had_bad_access, bad_rate_of);
	}
	for (size_t at = 0; s->self && at < ARRAY_SIZE(shipped); at++)
		add_self_family(&e, shipped[at].first, shipped[at].unit);
	r = otlp_writer_finish(&e.writer, ret, ret_n);
	if (r == 0)
		*ret_dropped = e.writer.dropped;
	return r;
}
