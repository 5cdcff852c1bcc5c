/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/trace_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bpf/fault_class.h"
#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/utf8.h"
#include "daemon/model/bad_access.h"
#include "daemon/model/fault.h"

enum trace_arch trace_arch_here(void)
{
#if defined(__x86_64__)
	return TRACE_X86;
#elif defined(__aarch64__)
	return TRACE_ARM64;
#else
	return TRACE_ARCH_UNKNOWN;
#endif
}

/* ---- meaning ---- */

struct bit_name {
	uint64_t bit;
	const char *name;
};

static void add_detail(struct trace_meaning *m, const char *name)
{
	size_t len = strlen(m->details);

	snprintf(m->details + len, sizeof(m->details) - len, "%s%s", len ? "|" : "", name);
}

static void add_bits(struct trace_meaning *m, uint64_t code, const struct bit_name *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (code & names[i].bit)
			add_detail(m, names[i].name);
}

static void name_class(struct trace_meaning *m, uint32_t class)
{
	struct fault_class names = fault_class_names(class);

	m->mode = names.mode;
	m->access = names.access;
	m->kind = names.kind;
}

static void meaning_x86(uint32_t mode, uint64_t code, struct trace_meaning *m)
{
	static const struct bit_name names[] = {
	    {X86_PF_PROT, "PROT"},   {X86_PF_WRITE, "WRITE"}, {X86_PF_USER, "USER"},
	    {X86_PF_RSVD, "RSVD"},   {X86_PF_INSTR, "INSTR"}, {X86_PF_PK, "PK"},
	    {X86_PF_SHSTK, "SHSTK"}, {X86_PF_SGX, "SGX"},     {X86_PF_RMP, "RMP"},
	};
	uint64_t known = 0;
	char rest[24];

	name_class(m, fault_class_x86(mode, code));
	add_bits(m, code, names, ARRAY_SIZE(names));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		known |= names[i].bit;
	if (code & ~known) {
		snprintf(rest, sizeof(rest), "0x%" PRIx64, code & ~known);
		add_detail(m, rest);
	}
}

/* More of ESR_EL1: the Arm Architecture Reference Manual, "ISS encoding for an exception from a Data Abort". */
#define ESR_S1PTW (UINT64_C(1) << 7)
#define ESR_EA (UINT64_C(1) << 9)
#define ESR_FNV (UINT64_C(1) << 10)
#define ESR_DIRTY (UINT64_C(1) << 37)
#define ESR_OVERLAY (UINT64_C(1) << 38)
#define ESR_TAG_ACCESS (UINT64_C(1) << 41)

/* Fault status codes: runs of them differ in the level of the translation table. */
static const struct fsc_name {
	unsigned first, last;
	int level; /* of the first one; NO_LEVEL: it has none */
	const char *name;
} fsc_names[] = {
#define NO_LEVEL 9
    {0x00, 0x03, 0, "ADDRESS_SIZE"},
    {0x04, 0x07, 0, "TRANSLATION"},
    {0x08, 0x0b, 0, "ACCESS_FLAG"},
    {0x0c, 0x0f, 0, "PERMISSION"},
    {0x10, 0x10, NO_LEVEL, "EXTERNAL_ABORT"},
    {0x11, 0x11, NO_LEVEL, "TAG_CHECK"},
    {0x13, 0x13, -1, "EXTERNAL_ABORT_ON_WALK"},
    {0x14, 0x17, 0, "EXTERNAL_ABORT_ON_WALK"},
    {0x18, 0x18, NO_LEVEL, "PARITY"},
    {0x1b, 0x1b, -1, "PARITY_ON_WALK"},
    {0x1c, 0x1f, 0, "PARITY_ON_WALK"},
    {0x21, 0x21, NO_LEVEL, "ALIGNMENT"},
    {0x29, 0x29, -1, "ADDRESS_SIZE"},
    {0x2b, 0x2b, -1, "TRANSLATION"},
    {0x30, 0x30, NO_LEVEL, "TLB_CONFLICT"},
    {0x31, 0x31, NO_LEVEL, "ATOMIC_UPDATE"},
    {0x34, 0x34, NO_LEVEL, "LOCKDOWN"},
    {0x35, 0x35, NO_LEVEL, "EXCLUSIVE_OR_ATOMIC"},
};

static const struct fsc_name *find_fsc(unsigned fsc)
{
	for (size_t i = 0; i < ARRAY_SIZE(fsc_names); i++)
		if (fsc >= fsc_names[i].first && fsc <= fsc_names[i].last)
			return &fsc_names[i];
	return NULL;
}

static void add_fsc(struct trace_meaning *m, unsigned fsc)
{
	const struct fsc_name *name = find_fsc(fsc);
	char text[48];

	if (!name)
		snprintf(text, sizeof(text), "FSC_0x%02x", fsc);
	else if (name->level == NO_LEVEL)
		snprintf(text, sizeof(text), "%s", name->name);
	else
		snprintf(text, sizeof(text), "%s_L%d", name->name, name->level + (int)(fsc - name->first));
	add_detail(m, text);
}

static void meaning_arm64(uint32_t mode, uint64_t esr, struct trace_meaning *m)
{
	static const struct bit_name of_data[] = {
	    {ARM64_ESR_WNR, "WNR"},         {ARM64_ESR_CM, "CM"}, {ARM64_ESR_GCS, "GCS"},
	    {ESR_TAG_ACCESS, "TAG_ACCESS"}, {ESR_DIRTY, "DIRTY"},
	};
	static const struct bit_name of_both[] = {
	    {ESR_S1PTW, "S1PTW"},
	    {ESR_EA, "EA"},
	    {ESR_FNV, "FNV"},
	    {ESR_OVERLAY, "OVERLAY"},
	};
	unsigned ec = ARM64_ESR_EC(esr);
	bool data = ec == ARM64_EC_DATA_USER || ec == ARM64_EC_DATA_KERNEL;
	char text[24];

	if (!fault_is_arm64_abort(esr)) {
		/* Its other bits have another meaning. */
		name_class(m, FAULT_CLASS_MODE_ONLY(mode));
		snprintf(text, sizeof(text), "EC_0x%02x", ec);
		add_detail(m, text);
		return;
	}
	name_class(m, fault_class_arm64(mode, esr));
	add_detail(m, data ? "DATA_ABORT" : "INSTRUCTION_ABORT");
	if (data)
		add_bits(m, esr, of_data, ARRAY_SIZE(of_data));
	add_bits(m, esr, of_both, ARRAY_SIZE(of_both));
	add_fsc(m, ARM64_ESR_FSC(esr));
}

void trace_meaning(enum trace_arch arch, uint32_t mode, uint64_t error_code, struct trace_meaning *ret)
{
	*ret = (struct trace_meaning){0};
	if (mode >= FAULT_MODES)
		mode = FAULT_USER;
	if (arch == TRACE_X86)
		meaning_x86(mode, error_code, ret);
	else if (arch == TRACE_ARM64)
		meaning_arm64(mode, error_code, ret);
	else
		name_class(ret, FAULT_CLASS_MODE_ONLY(mode));
}

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

void trace_line_text(struct strbuf *out, enum trace_arch arch, const struct trace_record *r,
		     const struct symbol_place *place, const char *cgroup)
{
	struct bad_class bad = bad_class_names(r->class);
	struct trace_meaning m;

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
		trace_meaning(arch, r->mode, r->error_code, &m);
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

static void json_error_code(struct strbuf *out, enum trace_arch arch, const struct trace_record *r)
{
	struct trace_meaning m;

	trace_meaning(arch, r->mode, r->error_code, &m);
	json_hex(out, "error_code", r->error_code);
	json_name(out, "mode", m.mode);
	json_name(out, "access", m.access);
	json_name(out, "kind", m.kind);
	json_name(out, "details", m.details);
}

void trace_line_json(struct strbuf *out, enum trace_arch arch, const struct trace_record *r,
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
