/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/crash_line.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/base/utf8.h"
#include "daemon/model/bad_access.h"
#include "daemon/model/fault.h"

#define HEX "0x%" PRIx64

/* ---- text from outside ---- */

/* Valid UTF-8 in any case; characters that are special go through `put`. */
static void put_filtered(struct strbuf *out, const char *text, bool (*is_special)(uint32_t),
			 void (*put)(struct strbuf *, uint32_t))
{
	size_t len = strlen(text), n;
	uint32_t c;

	for (size_t at = 0; at < len; at += n) {
		bool is_valid = utf8_next(text + at, len - at, &n, &c);

		if (is_special(c))
			put(out, c);
		else if (is_valid)
			strbuf_add(out, text + at, n);
		else
			utf8_append(out, text + at, n);
	}
}

static void put_escape(struct strbuf *out, uint32_t c)
{
	strbuf_addf(out, c < 0x100 ? "\\x%02" PRIx32 : "\\u%04" PRIx32, c);
}

static void put_shown(struct strbuf *out, const char *text)
{
	put_filtered(out, text, utf8_is_harmful, put_escape);
}

static bool is_unsafe_in_json(uint32_t c)
{
	return utf8_is_harmful(c) || c == '"' || c == '\\';
}

static void put_json_escape(struct strbuf *out, uint32_t c)
{
	if (c == '"' || c == '\\')
		strbuf_addf(out, "\\%c", (char)c);
	else
		strbuf_addf(out, "\\u%04" PRIx32, c);
}

/* ---- sentences ---- */

static void put_who(const struct crash *c, struct strbuf *out)
{
	put_shown(out, c->comm[0] ? c->comm : "?");
	strbuf_addf(out, "[%" PRIu32, c->pid);
	if (c->pid_inside != c->pid)
		strbuf_addf(out, ", %" PRIu32 " inside", c->pid_inside);
	strbuf_addc(out, ']');
}

static void put_place(const struct crash *c, struct strbuf *out)
{
	put_shown(out, c->identity->unit[0] ? c->identity->unit : c->identity->label);
}

static const char *access_words(const struct crash *c)
{
	static const char *const words[FAULT_ACCESSES] = {
	    [FAULT_READ] = "read of",
	    [FAULT_WRITE] = "write to",
	    [FAULT_EXEC] = "jump to",
	};

	return c->has_error_code && c->access < FAULT_ACCESSES ? words[c->access] : "access to";
}

/* NULL where the signal's code says it better. */
static const char *where_words(const struct crash *c)
{
	switch (c->where) {
	case CRASH_ADDRESS_NULL_PAGE:
		return "the null page";
	case CRASH_ADDRESS_STACK_GUARD:
		return "the stack's guard (stack exhausted)";
	case CRASH_ADDRESS_NON_CANONICAL:
		return "a non-canonical address";
	case CRASH_ADDRESS_KERNEL_HALF:
		return "the kernel's half";
	case CRASH_ADDRESS_UNMAPPED:
		return "unmapped memory";
	default:
		return NULL;
	}
}

static void put_what(const struct crash *c, bool addresses, struct strbuf *out)
{
	const char *where = where_words(c);

	if (where)
		strbuf_addf(out, "%s %s", access_words(c), where);
	else if (c->has_error_code)
		strbuf_addf(out, "%s: %s", fault_class_names(FAULT_CLASS(FAULT_USER, c->access, c->kind)).access,
			    bad_class_meaning(c->class));
	else
		strbuf_adds(out, bad_class_meaning(c->class));
	if (addresses && c->has_address)
		strbuf_addf(out, " at " HEX, c->address);
	if (c->sender_pid)
		strbuf_addf(out, " (%" PRIu32 ")", c->sender_pid);
}

static void put_signal(const struct crash *c, struct strbuf *out)
{
	const struct bad_class names = bad_class_names(c->class);

	strbuf_addf(out, "%s (%s), ", names.signal, names.code);
}

static void put_rest(const struct crash *c, struct strbuf *out)
{
	if (c->collapsed)
		strbuf_adds(out, ", after its handler was entered");
	if (c->core == CRASH_CORE_WRITTEN)
		strbuf_adds(out, ", core written");
	strbuf_addf(out, ", fingerprint %016" PRIx64, c->fingerprint);
	if (c->suppressed)
		strbuf_addf(out, ", %" PRIu64 " before it without a record", c->suppressed);
}

/* The innermost frame that is in a file, in full: the others are in the JSON object. */
static void put_frame(const struct crash *c, struct strbuf *out)
{
	for (size_t i = 0; i < c->n_frames; i++) {
		const struct crash_frame *f = &c->frames[i];

		if (f->in == CRASH_IN_NOTHING)
			continue;
		strbuf_addf(out, ", in %s+" HEX, f->in == CRASH_IN_PROGRAM ? "program" : f->build_id, f->offset);
		return;
	}
}

/* ---- lines ---- */

static void put_local_time(uint64_t time_unix_ns, struct strbuf *out)
{
	time_t seconds = (time_t)(time_unix_ns / NSEC_PER_SEC);
	char text[64] = "?";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		(void)strftime(text, sizeof(text), "%F %T", &tm);
	strbuf_addf(out, "%s.%03u ", text, (unsigned)(time_unix_ns % NSEC_PER_SEC / NSEC_PER_MSEC));
}

void crash_line_text(const struct crash *c, bool addresses, struct strbuf *out)
{
	put_local_time(c->time_unix_ns, out);
	put_place(c, out);
	strbuf_addc(out, ' ');
	put_who(c, out);
	strbuf_adds(out, ": ");
	put_signal(c, out);
	put_what(c, addresses, out);
	put_frame(c, out);
	if (addresses)
		strbuf_addf(out, ", ip " HEX " sp " HEX, c->ip, c->sp);
	put_rest(c, out);
	strbuf_addc(out, '\n');
}

void crash_line_message(const struct crash *c, struct strbuf *out)
{
	put_who(c, out);
	strbuf_adds(out, " of ");
	put_place(c, out);
	strbuf_adds(out, ": ");
	put_signal(c, out);
	put_what(c, false, out);
	put_rest(c, out);
}

/* ---- JSON ---- */

/* Opens the object with the first key. */
static void put_key(struct strbuf *out, const char *key, bool *first)
{
	strbuf_addf(out, "%s\"%s\":", *first ? "{" : ",", key);
	*first = false;
}

static void put_text(struct strbuf *out, const char *key, const char *text, bool *first)
{
	if (!text[0])
		return;
	put_key(out, key, first);
	strbuf_addc(out, '"');
	put_filtered(out, text, is_unsafe_in_json, put_json_escape);
	strbuf_addc(out, '"');
}

static void put_number(struct strbuf *out, const char *key, uint64_t number, bool *first)
{
	put_key(out, key, first);
	strbuf_addu(out, number);
}

/* As text: numbers of JSON are exact up to 53 bits only, and people read addresses in hexadecimal. */
static void put_hex(struct strbuf *out, const char *key, uint64_t number, bool *first)
{
	put_key(out, key, first);
	strbuf_addf(out, "\"" HEX "\"", number);
}

static void put_utc(struct strbuf *out, const char *key, uint64_t time_unix_ns, bool *first)
{
	time_t seconds = (time_t)(time_unix_ns / NSEC_PER_SEC);
	struct tm tm = {0};
	char text[64];

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(text, sizeof(text), "%FT%T", &tm);
	put_key(out, key, first);
	strbuf_addf(out, "\"%s.%09uZ\"", text, (unsigned)(time_unix_ns % NSEC_PER_SEC));
}

static void put_who_json(const struct crash *c, struct strbuf *out, bool *first)
{
	put_text(out, "cgroup", c->identity->label, first);
	put_text(out, "unit", c->identity->unit, first);
	put_text(out, "slice", c->identity->slice, first);
	put_text(out, "runtime", c->identity->runtime, first);
	put_text(out, "container_id", c->identity->container_id, first);
	put_text(out, "pod_uid", c->identity->pod_uid, first);
	put_number(out, "pid", c->pid, first);
	put_number(out, "tid", c->tid, first);
	put_number(out, "pid_inside", c->pid_inside, first);
	put_number(out, "tid_inside", c->tid_inside, first);
	put_number(out, "uid", c->uid, first);
	put_text(out, "comm", c->comm, first);
	put_text(out, "exe", c->exe, first);
}

static void put_access_json(const struct crash *c, struct strbuf *out, bool *first)
{
	const struct fault_class names = fault_class_names(FAULT_CLASS(FAULT_USER, c->access, c->kind));

	put_text(out, "access", names.access, first);
	put_text(out, "kind", names.kind, first);
	put_hex(out, "error_code", c->error_code, first);
}

static void put_fault_json(const struct crash *c, bool addresses, struct strbuf *out, bool *first)
{
	const struct bad_class names = bad_class_names(c->class);

	put_text(out, "signal", names.signal, first);
	put_text(out, "code", names.code, first);
	put_text(out, "code_meaning", bad_class_meaning(c->class), first);
	put_key(out, "si_code", first);
	strbuf_addf(out, "%" PRId32, c->code);
	put_text(out, "outcome", bad_outcome_name(BAD_FATAL), first);
	put_key(out, "collapsed", first);
	strbuf_adds(out, c->collapsed ? "true" : "false");
	if (c->sender_pid)
		put_number(out, "sender_pid", c->sender_pid, first);
	if (c->has_error_code)
		put_access_json(c, out, first);
	put_text(out, "address_class", crash_address_name(c->where), first);
	if (addresses && c->has_address)
		put_hex(out, "address", c->address, first);
	if (addresses) {
		put_hex(out, "ip", c->ip, first);
		put_hex(out, "sp", c->sp, first);
	}
}

static void put_frames_json(const struct crash *c, struct strbuf *out, bool *first)
{
	put_key(out, "frames", first);
	for (size_t i = 0; i < c->n_frames; i++) {
		const struct crash_frame *f = &c->frames[i];
		bool first_of_frame = true;

		strbuf_addc(out, i == 0 ? '[' : ',');
		if (f->in == CRASH_IN_NOTHING) {
			strbuf_adds(out, "{}");
			continue;
		}
		if (f->in == CRASH_IN_PROGRAM) {
			put_key(out, "program", &first_of_frame);
			strbuf_adds(out, "true");
		}
		put_text(out, "build_id", f->build_id, &first_of_frame);
		put_hex(out, "offset", f->offset, &first_of_frame);
		strbuf_addc(out, '}');
	}
	strbuf_addc(out, ']');
}

void crash_line_json(const struct crash *c, bool addresses, struct strbuf *out)
{
	bool first = true;

	put_number(out, "number", c->number, &first);
	put_utc(out, "time", c->time_unix_ns, &first);
	put_number(out, "time_unix_ns", c->time_unix_ns, &first);
	put_who_json(c, out, &first);
	put_fault_json(c, addresses, out, &first);
	put_key(out, "fingerprint", &first);
	strbuf_addf(out, "\"%016" PRIx64 "\"", c->fingerprint);
	if (c->n_frames > 0)
		put_frames_json(c, out, &first);
	if (c->core != CRASH_CORE_UNKNOWN)
		put_text(out, "core", crash_core_name(c->core), &first);
	put_number(out, "suppressed", c->suppressed, &first);
	strbuf_adds(out, "}\n");
}
