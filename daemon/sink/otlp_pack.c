/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/otlp_pack.h"

#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/utf8.h"
#include "proto/otlp.pb-c.h"

#define SEVERITY_TEXT "ERROR"

_Static_assert(OTLP_DATA_GAUGE == FAULTD__OTLP__METRIC__DATA_GAUGE && OTLP_DATA_SUM == FAULTD__OTLP__METRIC__DATA_SUM,
	       "the numbers are those of the schema");

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

/* ---- attributes ---- */

static struct otlp_attribute *add(struct otlp_attributes *a, const char *key)
{
	struct otlp_attribute *attribute;

	if (a->n == OTLP_ATTRIBUTES_MAX)
		return NULL;
	attribute = &a->list[a->n++];
	*attribute = (struct otlp_attribute){.key = key};
	return attribute;
}

void otlp_add_text(struct otlp_attributes *a, const char *key, const char *value)
{
	struct otlp_attribute *attribute = value && *value ? add(a, key) : NULL;

	if (attribute)
		attribute->text = value;
}

void otlp_add_number(struct otlp_attributes *a, const char *key, int64_t value)
{
	struct otlp_attribute *attribute = add(a, key);

	if (!attribute)
		return;
	attribute->type = OTLP_NUMBER;
	attribute->number = value;
}

void otlp_add_flag(struct otlp_attributes *a, const char *key, bool value)
{
	struct otlp_attribute *attribute = add(a, key);

	if (!attribute)
		return;
	attribute->type = OTLP_FLAG;
	attribute->flag = value;
}

void otlp_add_texts(struct otlp_attributes *a, const char *key, const char *const *values, size_t n)
{
	struct otlp_attribute *attribute = n ? add(a, key) : NULL;

	if (!attribute)
		return;
	attribute->type = OTLP_TEXTS;
	attribute->texts = values;
	attribute->n_texts = n < OTLP_TEXTS_MAX ? n : OTLP_TEXTS_MAX;
}

void otlp_add_identity(struct otlp_attributes *a, const struct identity *identity)
{
	otlp_add_text(a, "cgroup.path", identity->label);
	otlp_add_text(a, "systemd.unit", identity->unit);
	otlp_add_text(a, "systemd.slice", identity->slice);
	otlp_add_text(a, "container.id", identity->container_id);
	otlp_add_text(a, "container.runtime", identity->runtime);
	otlp_add_text(a, "k8s.pod.uid", identity->pod_uid);
}

/* Attributes as protobuf-c wants them. */
struct pairs {
	Faultd__Otlp__KeyValue *list[OTLP_ATTRIBUTES_MAX];
	Faultd__Otlp__KeyValue pairs[OTLP_ATTRIBUTES_MAX];
	Faultd__Otlp__AnyValue values[OTLP_ATTRIBUTES_MAX];
	Faultd__Otlp__ArrayValue array;
	Faultd__Otlp__AnyValue *element_list[OTLP_TEXTS_MAX];
	Faultd__Otlp__AnyValue elements[OTLP_TEXTS_MAX];
};

static void set_text(Faultd__Otlp__AnyValue *value, const char *s)
{
	*value = (Faultd__Otlp__AnyValue)FAULTD__OTLP__ANY_VALUE__INIT;
	value->value_case = FAULTD__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	value->string_value = text(s);
}

static Faultd__Otlp__ArrayValue *set_array(struct pairs *p, const struct otlp_attribute *a)
{
	p->array = (Faultd__Otlp__ArrayValue)FAULTD__OTLP__ARRAY_VALUE__INIT;
	p->array.n_values = a->n_texts;
	p->array.values = p->element_list;
	for (size_t at = 0; at < a->n_texts; at++) {
		set_text(&p->elements[at], a->texts[at]);
		p->element_list[at] = &p->elements[at];
	}
	return &p->array;
}

static void set_value(struct pairs *p, Faultd__Otlp__AnyValue *value, const struct otlp_attribute *a)
{
	*value = (Faultd__Otlp__AnyValue)FAULTD__OTLP__ANY_VALUE__INIT;
	switch (a->type) {
	case OTLP_TEXT:
		set_text(value, a->text);
		return;
	case OTLP_NUMBER:
		value->value_case = FAULTD__OTLP__ANY_VALUE__VALUE_INT_VALUE;
		value->int_value = a->number;
		return;
	case OTLP_FLAG:
		value->value_case = FAULTD__OTLP__ANY_VALUE__VALUE_BOOL_VALUE;
		value->bool_value = a->flag;
		return;
	case OTLP_TEXTS:
		value->value_case = FAULTD__OTLP__ANY_VALUE__VALUE_ARRAY_VALUE;
		value->array_value = set_array(p, a);
		return;
	}
}

static void set_pairs(struct pairs *p, const struct otlp_attributes *a)
{
	for (size_t at = 0; at < a->n; at++) {
		set_value(p, &p->values[at], &a->list[at]);
		p->pairs[at] = (Faultd__Otlp__KeyValue)FAULTD__OTLP__KEY_VALUE__INIT;
		p->pairs[at].key = text(a->list[at].key);
		p->pairs[at].value = &p->values[at];
		p->list[at] = &p->pairs[at];
	}
}

/* ---- heads ---- */

void otlp_pack_resource(struct strbuf *b, const struct otlp_host *host)
{
	Faultd__Otlp__ResourceMetrics part = FAULTD__OTLP__RESOURCE_METRICS__INIT;
	Faultd__Otlp__Resource resource = FAULTD__OTLP__RESOURCE__INIT;
	const char *id = host->host_id;
	struct otlp_attributes a;
	struct pairs pairs;

	a.n = 0;
	otlp_add_text(&a, "service.name", OTLP_SERVICE_NAME);
	/* Prometheus-like receivers make the labels job and instance of the name and this, and drop the rest of the
	 * resource: without an instance all hosts would write into the same series. */
	otlp_add_text(&a, "service.instance.id", id && *id ? id : host->host_name);
	otlp_add_text(&a, "service.version", host->service_version);
	otlp_add_text(&a, "host.id", id);
	otlp_add_text(&a, "host.name", host->host_name);
	otlp_add_text(&a, "host.arch", host->host_arch);
	set_pairs(&pairs, &a);
	resource.n_attributes = a.n;
	resource.attributes = pairs.list;
	part.resource = &resource;
	add_message(b, &part.base);
}

void otlp_pack_scope(struct strbuf *b, const struct otlp_host *host)
{
	Faultd__Otlp__ScopeMetrics part = FAULTD__OTLP__SCOPE_METRICS__INIT;
	Faultd__Otlp__Scope scope = FAULTD__OTLP__SCOPE__INIT;

	scope.name = text(OTLP_SERVICE_NAME);
	scope.version = text(host->service_version);
	part.scope = &scope;
	add_message(b, &part.base);
}

/* ---- metrics ---- */

void otlp_pack_metric_head(struct strbuf *b, const char *name, const char *unit, const char *description)
{
	Faultd__Otlp__Metric head = FAULTD__OTLP__METRIC__INIT;

	head.name = text(name);
	head.unit = text(unit);
	head.description = text(description);
	add_message(b, &head.base);
}

void otlp_pack_sum_tail(struct strbuf *b)
{
	Faultd__Otlp__Sum tail = FAULTD__OTLP__SUM__INIT;

	tail.temporality = FAULTD__OTLP__TEMPORALITY__CUMULATIVE;
	tail.is_monotonic = true;
	add_message(b, &tail.base);
}

void otlp_pack_point_attributes(struct strbuf *b, const struct otlp_attributes *a)
{
	Faultd__Otlp__NumberDataPoint part = FAULTD__OTLP__NUMBER_DATA_POINT__INIT;
	struct pairs pairs;

	set_pairs(&pairs, a);
	part.n_attributes = a->n;
	part.attributes = pairs.list;
	add_message(b, &part.base);
}

size_t otlp_pack_count(uint8_t out[OTLP_POINT_FIXED_BYTES], uint64_t start_unix_ns, uint64_t time_unix_ns,
		       int64_t value)
{
	Faultd__Otlp__NumberDataPoint p = FAULTD__OTLP__NUMBER_DATA_POINT__INIT;

	p.start_time_unix_nano = start_unix_ns;
	p.time_unix_nano = time_unix_ns;
	p.value_case = FAULTD__OTLP__NUMBER_DATA_POINT__VALUE_AS_INT;
	p.as_int = value;
	return protobuf_c_message_pack(&p.base, out);
}

size_t otlp_pack_rate(uint8_t out[OTLP_POINT_FIXED_BYTES], uint64_t time_unix_ns, double value)
{
	Faultd__Otlp__NumberDataPoint p = FAULTD__OTLP__NUMBER_DATA_POINT__INIT;

	p.time_unix_nano = time_unix_ns;
	p.value_case = FAULTD__OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE;
	p.as_double = value;
	return protobuf_c_message_pack(&p.base, out);
}

/* ---- logs ---- */

void otlp_pack_log(struct strbuf *b, const struct otlp_log *log)
{
	Faultd__Otlp__LogRecord record = FAULTD__OTLP__LOG_RECORD__INIT;
	Faultd__Otlp__AnyValue body;
	struct pairs pairs;

	set_text(&body, log->body);
	set_pairs(&pairs, log->attributes);
	record.time_unix_nano = log->time_unix_ns;
	record.observed_time_unix_nano = log->observed_unix_ns;
	record.severity_number = FAULTD__OTLP__SEVERITY__SEVERITY_ERROR;
	record.severity_text = text(SEVERITY_TEXT);
	record.event_name = text(log->event_name);
	record.body = &body;
	record.n_attributes = log->attributes->n;
	record.attributes = pairs.list;
	add_message(b, &record.base);
}

/* ---- the answer, of otlp.h ---- */

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
	return response->partial_success->rejected > 0 ? (uint64_t)response->partial_success->rejected : 0;
}
