/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf-c packs what is small: heads of messages, attributes, the fixed part of a data point. Attributes are packed
 * once per cgroup and once per class, not once per point: a point is then a copy of some hundred bytes instead of
 * thirty small messages. otlp_batch.c strings the pieces together.
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
#include "daemon/base/utf8.h"
#include "daemon/sink/otlp_batch.h"
#include "proto/otlp.pb-c.h"

#define SERVICE_NAME "faultd"
#define ATTRIBUTES_MAX 8
/* The fixed part of a data point is three numbers of eight bytes with a byte of tag each. */
#define POINT_FIXED_BYTES 27

#define DATA_SUM FAULTD__OTLP__METRIC__DATA_SUM /* cumulative and monotonic */
#define DATA_GAUGE FAULTD__OTLP__METRIC__DATA_GAUGE

struct metric {
	const char *name;
	const char *unit;
	const char *description;
	uint32_t data;
};

static const struct metric page_faults = {"faultd.page_faults", "{fault}", "Page faults by cgroup and class.",
					  DATA_SUM};
static const struct metric major_faults = {"faultd.major_page_faults", "{fault}",
					   "Page faults that had to wait for I/O, by cgroup.", DATA_SUM};
static const struct metric fault_rate = {"faultd.page_fault.rate", "{fault}/s",
					 "Page faults per second over a sliding window.", DATA_GAUGE};

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

/* protobuf-c's fields are not const, yet packing only reads. */
static char *text(const char *s)
{
	return (char *)(uintptr_t)(s ? s : "");
}

static void add_message(struct strbuf *b, const ProtobufCMessage *message)
{
	size_t n = protobuf_c_message_get_packed_size(message);

	strbuf_reserve(b, n);
	if (!strbuf_error(b))
		b->len += protobuf_c_message_pack(message, (uint8_t *)b->data + b->len);
}

static struct otlp_span whole(const struct strbuf *b)
{
	return (struct otlp_span){b->data, b->len};
}

/* ---- attributes ---- */

struct attributes {
	size_t n;
	Faultd__Otlp__KeyValue *list[ATTRIBUTES_MAX];
	Faultd__Otlp__KeyValue pairs[ATTRIBUTES_MAX];
	Faultd__Otlp__AnyValue values[ATTRIBUTES_MAX];
};

/* Empty values are left out. */
static void add_attribute(struct attributes *a, const char *key, const char *value)
{
	size_t at = a->n;

	if (!value || !*value || at == ATTRIBUTES_MAX)
		return;
	a->values[at] = (Faultd__Otlp__AnyValue)FAULTD__OTLP__ANY_VALUE__INIT;
	a->values[at].value_case = FAULTD__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	a->values[at].string_value = text(value);
	a->pairs[at] = (Faultd__Otlp__KeyValue)FAULTD__OTLP__KEY_VALUE__INIT;
	a->pairs[at].key = text(key);
	a->pairs[at].value = &a->values[at];
	a->list[at] = &a->pairs[at];
	a->n++;
}

/* As the part of a data point that they are. */
static void pack_attributes(struct strbuf *b, struct attributes *a)
{
	Faultd__Otlp__NumberDataPoint part = FAULTD__OTLP__NUMBER_DATA_POINT__INIT;

	part.n_attributes = a->n;
	part.attributes = a->list;
	add_message(b, &part.base);
}

static void pack_identity(struct strbuf *b, const struct identity *identity)
{
	struct attributes a;

	a.n = 0; /* the rest is filled as far as it is used */
	add_attribute(&a, "cgroup.path", identity->label);
	add_attribute(&a, "systemd.unit", identity->unit);
	add_attribute(&a, "systemd.slice", identity->slice);
	add_attribute(&a, "container.id", identity->container_id);
	add_attribute(&a, "container.runtime", identity->runtime);
	add_attribute(&a, "k8s.pod.uid", identity->pod_uid);
	pack_attributes(b, &a);
}

static void pack_class(struct strbuf *b, uint32_t class)
{
	struct fault_class names = fault_class_names(class);
	struct attributes a;

	a.n = 0;
	add_attribute(&a, "fault.mode", names.mode);
	add_attribute(&a, "fault.access", names.access);
	add_attribute(&a, "fault.kind", names.kind);
	pack_attributes(b, &a);
}

/* Packs one attribute, or none if `key` is NULL. */
static void pack_attribute(struct strbuf *b, const char *key, const char *value)
{
	struct attributes a;

	a.n = 0;
	if (key)
		add_attribute(&a, key, value);
	pack_attributes(b, &a);
}

static void pack_window(struct strbuf *b, uint64_t length_ns)
{
	char length[DURATION_TEXT_BYTES];

	pack_attribute(b, "window", duration_text(length_ns, length));
}

/* ---- heads ---- */

static void pack_resource(struct strbuf *b, const struct otlp_host *host)
{
	Faultd__Otlp__ResourceMetrics part = FAULTD__OTLP__RESOURCE_METRICS__INIT;
	Faultd__Otlp__Resource resource = FAULTD__OTLP__RESOURCE__INIT;
	const char *id = host->host_id;
	struct attributes a;

	a.n = 0;
	add_attribute(&a, "service.name", SERVICE_NAME);
	/* Prometheus-like receivers make the labels job and instance of the name and this, and drop the rest of the
	 * resource: without an instance all hosts would write into the same series. */
	add_attribute(&a, "service.instance.id", id && *id ? id : host->host_name);
	add_attribute(&a, "service.version", host->service_version);
	add_attribute(&a, "host.id", id);
	add_attribute(&a, "host.name", host->host_name);
	add_attribute(&a, "host.arch", host->host_arch);
	resource.n_attributes = a.n;
	resource.attributes = a.list;
	part.resource = &resource;
	add_message(b, &part.base);
}

static void pack_scope(struct strbuf *b, const struct otlp_host *host)
{
	Faultd__Otlp__ScopeMetrics part = FAULTD__OTLP__SCOPE_METRICS__INIT;
	Faultd__Otlp__Scope scope = FAULTD__OTLP__SCOPE__INIT;

	scope.name = text(SERVICE_NAME);
	scope.version = text(host->service_version);
	part.scope = &scope;
	add_message(b, &part.base);
}

static void open_metric(struct encoder *e, const struct metric *metric)
{
	Faultd__Otlp__Metric head = FAULTD__OTLP__METRIC__INIT;
	Faultd__Otlp__Sum tail = FAULTD__OTLP__SUM__INIT;

	otlp_writer_close_metric(&e->writer);
	head.name = text(metric->name);
	head.unit = text(metric->unit);
	head.description = text(metric->description);
	add_message(&e->writer.metric_head, &head.base);
	e->writer.data_field = metric->data;
	if (metric->data != DATA_SUM)
		return;
	tail.temporality = FAULTD__OTLP__TEMPORALITY__CUMULATIVE;
	tail.is_monotonic = true;
	add_message(&e->writer.data_tail, &tail.base);
}

/* ---- data points ---- */

static void add_point(struct encoder *e, const Faultd__Otlp__NumberDataPoint *fixed, struct otlp_span identity,
		      struct otlp_span more)
{
	uint8_t packed[POINT_FIXED_BYTES];
	struct otlp_span parts[] = {{packed, protobuf_c_message_pack(&fixed->base, packed)}, identity, more};

	otlp_writer_add_point(&e->writer, parts, ARRAY_SIZE(parts));
}

static void add_count(struct encoder *e, uint64_t start_unix_ns, uint64_t value, struct otlp_span identity,
		      struct otlp_span more)
{
	Faultd__Otlp__NumberDataPoint p = FAULTD__OTLP__NUMBER_DATA_POINT__INIT;

	p.time_unix_nano = e->snapshot->now_unix_ns;
	/* A wall clock that was set back meanwhile must not make a series end before it began. */
	p.start_time_unix_nano = start_unix_ns < p.time_unix_nano ? start_unix_ns : p.time_unix_nano;
	p.value_case = FAULTD__OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
	p.as_int = value <= INT64_MAX ? (int64_t)value : INT64_MAX;
	add_point(e, &p, identity, more);
}

static void add_rate(struct encoder *e, double value, struct otlp_span identity, struct otlp_span more)
{
	Faultd__Otlp__NumberDataPoint p = FAULTD__OTLP__NUMBER_DATA_POINT__INIT;

	p.time_unix_nano = e->snapshot->now_unix_ns;
	p.value_case = FAULTD__OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
	p.as_double = value;
	add_point(e, &p, identity, more);
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

static void add_window(struct encoder *e, size_t w)
{
	const struct aggregate *a = e->snapshot->aggregate;
	auto_strbuf attributes = {0};

	pack_window(&attributes, aggregate_window_ns(a, w));
	if (!otlp_writer_ok(&e->writer, &attributes))
		return;
	for (const struct series *s = e->series; s < e->series + e->n_series; s++)
		add_rate(e, aggregate_rate(a, s->at, w), identity_of(e, s), whole(&attributes));
}

static void add_rates(struct encoder *e)
{
	open_metric(e, &fault_rate);
	for (size_t w = 0; w < aggregate_windows(e->snapshot->aggregate); w++)
		add_window(e, w);
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

#define DATA_counter DATA_SUM
#define DATA_gauge DATA_GAUGE
#define DATA_seconds DATA_GAUGE /* kept in ns: would need a conversion, and none is shipped */
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
		add_count(e, m->data == DATA_SUM && other ? other->start_unix_ns : 0, value, whole(&attributes),
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
	snprintf(name, sizeof(name), "%s.%s", SERVICE_NAME, family);
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

	pack_resource(&e.writer.resource, host);
	pack_scope(&e.writer.scope, host);
	if (!otlp_writer_ok(&e.writer, &e.writer.resource) || !otlp_writer_ok(&e.writer, &e.writer.scope))
		return -ENOMEM;
	r = collect_series(&e);
	if (r < 0)
		return r;
	add_page_faults(&e);
	add_major_faults(&e);
	add_rates(&e);
	for (size_t at = 0; s->self && at < ARRAY_SIZE(shipped); at++)
		add_self_family(&e, shipped[at].first, shipped[at].unit);
	r = otlp_writer_finish(&e.writer, ret, ret_n);
	if (r == 0)
		*ret_dropped = e.writer.dropped;
	return r;
}

/* ---- the answer ---- */

static void free_response(Faultd__Otlp__ExportResponse **response)
{
	faultd__otlp__export_response__free_unpacked(*response, NULL); /* NULL is fine */
}

/* Valid UTF-8 whatever comes, cut between characters. */
static void copy_message(const char *from, char *to, size_t size)
{
	auto_strbuf clean = {0};
	size_t n;

	utf8_append(&clean, from, strlen(from));
	if (!size || strbuf_error(&clean))
		return;
	n = clean.len < size ? clean.len : size - 1;
	while (n < clean.len && n > 0 && (clean.data[n] & 0xc0) == 0x80)
		n--;
	if (n)
		memcpy(to, clean.data, n);
	to[n] = '\0';
}

uint64_t otlp_parse_response(const uint8_t *body, size_t len, char *message, size_t size)
{
	cleanup(free_response) Faultd__Otlp__ExportResponse *response = NULL;

	if (size)
		message[0] = '\0';
	if (len)
		response = faultd__otlp__export_response__unpack(NULL, len, body);
	if (!response || !response->partial_success)
		return 0;
	copy_message(response->partial_success->error_message, message, size);
	return response->partial_success->rejected_data_points > 0
		   ? (uint64_t)response->partial_success->rejected_data_points
		   : 0;
}
