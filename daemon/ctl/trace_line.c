/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/trace_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/utf8.h"
#include "daemon/model/bad_access.h"
#include "daemon/model/fault_code.h"

/* ---- names of other people's making ---- */

static void add_text(struct strbuf *out, const char *s, size_t len)
{
	for (size_t at = 0, n; at < len; at += n) {
		uint32_t c;
		bool good = utf8_next(s + at, len - at, &n, &c);

		if (good && !utf8_is_harmful(c) && c != '\\')
			strbuf_add(out, s + at, n);
		else if (good && c == '\\')
			strbuf_adds(out, "\\\\");
		else
			for (size_t i = 0; i < n; i++)
				strbuf_addf(out, "\\x%02x", (unsigned char)s[at + i]);
	}
}

/* JSON has no words for characters beyond the basic plane but surrogates; those are not harmful to a parser and
 * stay. */
static void add_json(struct strbuf *out, const char *s, size_t len)
{
	strbuf_addc(out, '"');
	for (size_t at = 0, n; at < len; at += n) {
		uint32_t c;
		bool good = utf8_next(s + at, len - at, &n, &c);

		if (!good)
			strbuf_adds(out, "\xef\xbf\xbd");
		else if (c == '"' || c == '\\')
			strbuf_addf(out, "\\%c", (int)c);
		else if (utf8_is_harmful(c) && c <= 0xffff)
			strbuf_addf(out, "\\u%04x", c);
		else
			strbuf_add(out, s + at, n);
	}
	strbuf_addc(out, '"');
}

static void read_code(enum fault_arch arch, const struct trace_record *r, struct fault_code *ret)
{
	struct fault_raw raw = {.arch = arch, .mode = r->mode, .code = r->error_code};

	fault_code_decode(&raw, ret);
}

/* ---- text ---- */

static void text_head(struct strbuf *out, const struct trace_record *r)
{
	auto_strbuf comm = {0};
	char pid[24];

	add_text(&comm, r->comm, strnlen(r->comm, sizeof(r->comm)));
	if (r->tid == r->tgid)
		snprintf(pid, sizeof(pid), "%u", r->tgid);
	else
		snprintf(pid, sizeof(pid), "%u/%u", r->tgid, r->tid);
	strbuf_addf(out, "%16s %7s [%03u] %5" PRIu64 ".%06" PRIu64 ": ", comm.data ? comm.data : "", pid, r->cpu,
		    (uint64_t)(r->time_ns / NSEC_PER_SEC), (uint64_t)(r->time_ns % NSEC_PER_SEC / NSEC_PER_USEC));
}

static const char *event_name(const struct trace_record *r)
{
	return r->type == TRACE_BAD ? "bad_access" : r->mode == FAULT_KERNEL ? "page_fault_kernel" : "page_fault_user";
}

static void text_place(struct strbuf *out, const struct symbol_place *place)
{
	if (!place->symbol && !place->module) {
		strbuf_adds(out, " [unknown]");
		return;
	}
	strbuf_addc(out, ' ');
	if (place->symbol) {
		add_text(out, place->symbol, strlen(place->symbol));
		strbuf_addf(out, "+0x%" PRIx64 " (", place->symbol_offset);
	}
	if (place->module)
		add_text(out, place->module, strlen(place->module));
	if (!place->symbol && place->has_offset)
		strbuf_addf(out, "+0x%" PRIx64, place->module_offset);
	if (place->symbol)
		strbuf_addc(out, ')');
}

void trace_line_text(struct strbuf *out, enum fault_arch arch, const struct trace_record *r,
		     const struct symbol_place *place, const char *cgroup)
{
	struct bad_class bad = bad_class_names(r->class);
	struct fault_code m;

	text_head(out, r);
	strbuf_adds(out, event_name(r));
	if (r->type == TRACE_BAD)
		strbuf_addf(out, " %s code=%s", bad.signal, bad.code);
	if (r->flags & TRACE_HAS_ADDRESS)
		strbuf_addf(out, " address=0x%" PRIx64, (uint64_t)r->address);
	strbuf_addf(out, " ip=0x%" PRIx64, (uint64_t)r->ip);
	if (r->type == TRACE_BAD)
		strbuf_addf(out, " outcome=%s", bad_outcome_name(r->outcome));
	if (r->flags & TRACE_HAS_ERROR_CODE) {
		read_code(arch, r, &m);
		strbuf_addf(out, " error_code=0x%" PRIx64 " (%s %s, %s)", (uint64_t)r->error_code, m.mode, m.access,
			    m.kind);
		if (*m.details)
			strbuf_addf(out, " %s", m.details);
	}
	text_place(out, place);
	if (cgroup) {
		strbuf_adds(out, " cgroup=");
		add_text(out, cgroup, strlen(cgroup));
	}
	strbuf_addc(out, '\n');
}

/* ---- JSON ---- */

static void json_name(struct strbuf *out, const char *key, const char *value)
{
	if (!value)
		return;
	strbuf_addf(out, ",\"%s\":", key);
	add_json(out, value, strlen(value));
}

/* Text: a number of 64 bits is more than many readers of JSON take. */
static void json_hex(struct strbuf *out, const char *key, uint64_t value)
{
	strbuf_addf(out, ",\"%s\":\"0x%" PRIx64 "\"", key, value);
}

static void json_error_code(struct strbuf *out, enum fault_arch arch, const struct trace_record *r)
{
	struct fault_code m;

	read_code(arch, r, &m);
	json_hex(out, "error_code", r->error_code);
	json_name(out, "mode", m.mode);
	json_name(out, "access", m.access);
	json_name(out, "kind", m.kind);
	json_name(out, "details", m.details);
}

void trace_line_json(struct strbuf *out, enum fault_arch arch, const struct trace_record *r,
		     const struct symbol_place *place, const char *cgroup)
{
	struct bad_class bad = bad_class_names(r->class);

	strbuf_adds(out, "{\"comm\":");
	add_json(out, r->comm, strnlen(r->comm, sizeof(r->comm)));
	strbuf_addf(out, ",\"pid\":%u,\"tid\":%u,\"cpu\":%u,\"time\":%" PRIu64 ".%06" PRIu64, r->tgid, r->tid, r->cpu,
		    (uint64_t)(r->time_ns / NSEC_PER_SEC), (uint64_t)(r->time_ns % NSEC_PER_SEC / NSEC_PER_USEC));
	json_name(out, "event", event_name(r));
	if (r->type == TRACE_BAD) {
		json_name(out, "signal", bad.signal);
		json_name(out, "code", bad.code);
		json_name(out, "outcome", bad_outcome_name(r->outcome));
	}
	if (r->flags & TRACE_HAS_ADDRESS)
		json_hex(out, "address", r->address);
	json_hex(out, "ip", r->ip);
	json_name(out, "symbol", place->symbol);
	if (place->symbol)
		json_hex(out, "symbol_offset", place->symbol_offset);
	json_name(out, "module", place->module);
	if (place->has_offset)
		json_hex(out, "module_offset", place->module_offset);
	if (r->flags & TRACE_HAS_ERROR_CODE)
		json_error_code(out, arch, r);
	json_name(out, "cgroup", cgroup);
	strbuf_adds(out, "}\n");
}
