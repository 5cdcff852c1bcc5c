/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/otlp_logs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/utf8.h"
#include "daemon/model/bad_access.h"
#include "daemon/model/fault.h"
#include "daemon/sink/otlp_pack.h"
#include "daemon/sink/otlp_wire.h"

/* Numbers, as in otlp.proto, of the lists that are strung together here. */
enum {
	FIELD_EXPORT_RESOURCE_LOGS = 1,
	FIELD_RESOURCE_LOGS_SCOPE_LOGS = 2,
	FIELD_SCOPE_LOGS_LOG_RECORDS = 2,
};

#define HEX_TEXT_BYTES 19 /* "0x", 16 digits */
/* A build id, "+" and a number. */
#define FRAME_TEXT_BYTES (2 * CRASH_BUILD_ID_BYTES + 1 + HEX_TEXT_BYTES)

_Static_assert(CRASH_FRAMES <= OTLP_TEXTS_MAX, "all frames go into one attribute");

struct writer {
	const struct otlp_logs_options *options;
	struct strbuf resource; /* every ResourceLogs begins so */
	struct strbuf scope;    /* every ScopeLogs begins so */
	struct strbuf records;  /* of the batch under construction, each with its field's head */
	size_t n_records;
	struct otlp_batch *batches;
	size_t n_batches, dropped;
};

static void writer_done(struct writer *w)
{
	strbuf_done(&w->resource);
	strbuf_done(&w->scope);
	strbuf_done(&w->records);
	otlp_batches_free(w->batches, w->n_batches);
}

/* ---- what is told about a crash ---- */

/* What the attributes point to. */
struct texts {
	char fingerprint[17];
	char address[HEX_TEXT_BYTES], ip[HEX_TEXT_BYTES], sp[HEX_TEXT_BYTES];
	char frames[CRASH_FRAMES][FRAME_TEXT_BYTES];
	const char *frame_list[CRASH_FRAMES];
};

static const char *hex(char out[HEX_TEXT_BYTES], uint64_t value)
{
	snprintf(out, HEX_TEXT_BYTES, "0x%" PRIx64, value);
	return out;
}

static void add_process(struct otlp_attributes *a, const struct crash *c)
{
	const char *slash = strrchr(c->exe, '/');

	otlp_add_number(a, "process.pid", c->pid);
	otlp_add_number(a, "process.vpid", c->pid_inside);
	otlp_add_text(a, "process.executable.path", c->exe);
	otlp_add_text(a, "process.executable.name", slash ? slash + 1 : c->exe);
	otlp_add_number(a, "process.real_user.id", c->uid);
	otlp_add_number(a, "thread.id", c->tid);
	otlp_add_text(a, "thread.name", c->comm);
}

static void add_signal(struct otlp_attributes *a, const struct crash *c)
{
	struct bad_class names = bad_class_names(c->class);

	otlp_add_text(a, "faultd.signal", names.signal);
	otlp_add_text(a, "faultd.code", names.code);
	otlp_add_text(a, "faultd.outcome", bad_outcome_name(BAD_FATAL));
	otlp_add_number(a, "faultd.si_code", c->code);
	if (c->sender_pid)
		otlp_add_number(a, "faultd.sender_pid", c->sender_pid);
	otlp_add_flag(a, "faultd.collapsed", c->collapsed);
}

static void add_access(struct otlp_attributes *a, const struct crash *c, bool addresses, struct texts *t)
{
	if (c->has_error_code) {
		struct fault_class names = fault_class_names(FAULT_CLASS(FAULT_USER, c->access, c->kind));

		otlp_add_text(a, "faultd.access", names.access);
		otlp_add_text(a, "faultd.kind", names.kind);
		otlp_add_number(a, "faultd.error_code", (int64_t)c->error_code);
	}
	otlp_add_text(a, "faultd.address_class", crash_address_name(c->where));
	if (!addresses)
		return;
	if (c->has_address)
		otlp_add_text(a, "faultd.address", hex(t->address, c->address));
	otlp_add_text(a, "faultd.ip", hex(t->ip, c->ip));
	otlp_add_text(a, "faultd.sp", hex(t->sp, c->sp));
}

static void write_frame(char out[FRAME_TEXT_BYTES], const struct crash_frame *f)
{
	switch (f->in) {
	case CRASH_IN_BUILD_ID:
		snprintf(out, FRAME_TEXT_BYTES, "%s+0x%" PRIx64, f->build_id, f->offset);
		return;
	case CRASH_IN_PROGRAM:
		snprintf(out, FRAME_TEXT_BYTES, "program+0x%" PRIx64, f->offset);
		return;
	case CRASH_IN_NOTHING:
		break;
	}
	snprintf(out, FRAME_TEXT_BYTES, "?");
}

static void add_place(struct otlp_attributes *a, const struct crash *c, struct texts *t)
{
	size_t n = c->n_frames < CRASH_FRAMES ? c->n_frames : CRASH_FRAMES;

	snprintf(t->fingerprint, sizeof(t->fingerprint), "%016" PRIx64, c->fingerprint);
	otlp_add_text(a, "faultd.fingerprint", t->fingerprint);
	for (size_t at = 0; at < n; at++) {
		write_frame(t->frames[at], &c->frames[at]);
		t->frame_list[at] = t->frames[at];
	}
	otlp_add_texts(a, "faultd.frames", t->frame_list, n);
}

static void add_rest(struct otlp_attributes *a, const struct crash *c)
{
	otlp_add_text(a, "faultd.core", crash_core_name(c->core));
	otlp_add_number(a, "faultd.suppressed", c->suppressed <= INT64_MAX ? (int64_t)c->suppressed : INT64_MAX);
}

static int pack_crash(const struct otlp_logs_options *o, const struct crash *c, struct strbuf *out)
{
	auto_strbuf sentence = {0}, body = {0};
	struct otlp_attributes a;
	struct texts texts;

	a.n = 0;
	otlp_add_identity(&a, c->identity);
	add_process(&a, c);
	add_signal(&a, c);
	add_access(&a, c, o->addresses, &texts);
	add_place(&a, c, &texts);
	add_rest(&a, c);
	o->body(c, &sentence);
	if (sentence.len) /* one text that is not UTF-8 would cost the whole batch */
		utf8_append(&body, sentence.data, sentence.len);
	if (strbuf_error(&sentence) || strbuf_error(&body))
		return -ENOMEM;
	otlp_pack_log(out, &(struct otlp_log){.event_name = OTLP_CRASH_EVENT,
					      .time_unix_ns = c->time_unix_ns,
					      .observed_unix_ns = o->observed_unix_ns,
					      .body = body.data,
					      .attributes = &a});
	return strbuf_error(out);
}

/* ---- batches ---- */

static size_t scope_logs_size(const struct writer *w, size_t records)
{
	return w->scope.len + records;
}

static size_t resource_logs_size(const struct writer *w, size_t records)
{
	return w->resource.len + otlp_field_size(scope_logs_size(w, records));
}

/* Of the whole request. */
static size_t request_size(const struct writer *w, size_t records)
{
	return otlp_field_size(resource_logs_size(w, records));
}

static int end_batch(struct writer *w)
{
	size_t size = request_size(w, w->records.len);
	struct otlp_batch *batches;
	uint8_t *data, *at;

	if (!w->n_records)
		return 0;
	batches = reallocarray(w->batches, w->n_batches + 1, sizeof(*batches));
	if (!batches)
		return -ENOMEM;
	w->batches = batches;
	at = data = malloc(size);
	if (!data)
		return -ENOMEM;
	at = otlp_put_field_head(at, FIELD_EXPORT_RESOURCE_LOGS, resource_logs_size(w, w->records.len));
	at = otlp_put_bytes(at, w->resource.data, w->resource.len);
	at = otlp_put_field_head(at, FIELD_RESOURCE_LOGS_SCOPE_LOGS, scope_logs_size(w, w->records.len));
	at = otlp_put_bytes(at, w->scope.data, w->scope.len);
	otlp_put_bytes(at, w->records.data, w->records.len);
	batches[w->n_batches++] = (struct otlp_batch){.data = data, .size = size, .points = w->n_records};
	w->n_records = 0;
	strbuf_reset(&w->records);
	return 0;
}

static int add_record(struct writer *w, const struct strbuf *record)
{
	size_t size = otlp_field_size(record->len);
	int r = 0;

	if (request_size(w, size) > w->options->max_bytes) {
		w->dropped++;
		return 0;
	}
	if (request_size(w, w->records.len + size) > w->options->max_bytes)
		r = end_batch(w);
	if (r < 0)
		return r;
	otlp_add_field_head(&w->records, FIELD_SCOPE_LOGS_LOG_RECORDS, record->len);
	strbuf_add(&w->records, record->data, record->len);
	w->n_records++;
	return strbuf_error(&w->records);
}

static int add_crashes(struct writer *w, const struct crash *const *crashes, size_t n)
{
	auto_strbuf record = {0};
	int r = 0;

	for (size_t at = 0; at < n && r == 0; at++) {
		strbuf_reset(&record);
		r = pack_crash(w->options, crashes[at], &record);
		if (r == 0)
			r = add_record(w, &record);
	}
	return r < 0 ? r : end_batch(w);
}

int otlp_logs_encode(const struct crash *const *crashes, size_t n, const struct otlp_logs_options *options,
		     struct otlp_batch **ret, size_t *ret_n, size_t *ret_dropped)
{
	cleanup(writer_done) struct writer w = {.options = options};
	int r;

	otlp_pack_resource(&w.resource, options->host);
	otlp_pack_scope(&w.scope, options->host);
	if (strbuf_error(&w.resource) || strbuf_error(&w.scope))
		return -ENOMEM;
	r = add_crashes(&w, crashes, n);
	if (r < 0)
		return r;
	*ret = take_ptr(w.batches);
	*ret_n = w.n_batches;
	*ret_dropped = w.dropped;
	w.n_batches = 0;
	return 0;
}
