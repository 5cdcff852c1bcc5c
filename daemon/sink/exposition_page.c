/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/exposition_page.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/duration.h"

#define RATE_SCALE UINT64_C(1000000) /* rates are shown to six decimals */
#define RATE_MAX 1e12                /* far above what a host can do, far below what overflows */

/* ---- words of the formats ---- */

const char *page_suffix(enum kind kind)
{
	return kind == KIND_COUNTER ? "_total" : kind == KIND_INFO ? "_info" : "";
}

/* Text 0.0.4 knows no info type. */
const char *page_type_word(enum kind kind, enum exposition_format format)
{
	if (kind == KIND_INFO)
		return format == EXPOSITION_OPENMETRICS ? "info" : "gauge";
	return kind == KIND_COUNTER ? "counter" : kind == KIND_HISTOGRAM ? "histogram" : "gauge";
}

const char *page_unit(const char *name)
{
	const char *last = strrchr(name, '_');

	if (!last || (strcmp(last, "_seconds") != 0 && strcmp(last, "_bytes") != 0))
		return NULL;
	return last + 1;
}

void page_escaped(struct strbuf *out, const char *text)
{
	for (;;) {
		size_t plain = strcspn(text, "\\\"\n");

		strbuf_add(out, text, plain);
		text += plain;
		if (!*text)
			return;
		strbuf_addc(out, '\\');
		strbuf_addc(out, *text == '\n' ? 'n' : *text);
		text++;
	}
}

/* Always with a point: OpenMetrics tells floats from integers by it. */
void page_fixed(struct strbuf *out, uint64_t units, uint64_t scale)
{
	uint64_t rest = units % scale;

	strbuf_addu(out, units / scale);
	strbuf_addc(out, '.');
	do {
		scale /= 10;
		strbuf_addc(out, (char)('0' + rest / scale));
		rest %= scale;
	} while (rest);
}

void page_rate(struct strbuf *out, double rate)
{
	if (!(rate > 0)) /* not a number, too */
		rate = 0;
	if (rate > RATE_MAX)
		rate = RATE_MAX;
	page_fixed(out, (uint64_t)(rate * (double)RATE_SCALE + 0.5), RATE_SCALE);
}

/* ---- families ---- */

static void put_meta(const struct page *p, const char *word, const char *name, const char *suffix, const char *value)
{
	strbuf_adds(p->out, word);
	strbuf_adds(p->out, name);
	strbuf_adds(p->out, suffix);
	strbuf_addc(p->out, ' ');
	strbuf_adds(p->out, value);
	strbuf_addc(p->out, '\n');
}

/* OpenMetrics names the family, text 0.0.4 the samples. */
void page_head(const struct page *p, const struct family *f)
{
	const char *type = page_type_word(f->kind, p->format), *unit = page_unit(f->name);

	if (p->format == EXPOSITION_OPENMETRICS) {
		put_meta(p, "# TYPE ", f->name, "", type);
		if (unit)
			put_meta(p, "# UNIT ", f->name, "", unit);
		put_meta(p, "# HELP ", f->name, "", f->help);
	} else {
		put_meta(p, "# HELP ", f->name, page_suffix(f->kind), f->help);
		put_meta(p, "# TYPE ", f->name, page_suffix(f->kind), type);
	}
}

void page_name(const struct page *p, const struct family *f)
{
	strbuf_adds(p->out, f->name);
	strbuf_adds(p->out, page_suffix(f->kind));
}

void page_cgroup(const struct page *p, const struct family *f, const char *suffix, const struct series *s)
{
	strbuf_adds(p->out, f->name);
	strbuf_adds(p->out, suffix ? suffix : page_suffix(f->kind));
	strbuf_adds(p->out, "{cgroup=\"");
	strbuf_add(p->out, p->labels.data + s->label, s->label_len);
}

void page_label(const struct page *p, const char *before, const char *value)
{
	strbuf_adds(p->out, before);
	page_escaped(p->out, value);
	strbuf_addc(p->out, '"');
}

void page_set_tail(struct tail *t, int written)
{
	t->len = written > 0 && (size_t)written < sizeof(t->text) ? (size_t)written : 0;
}

static void set_window_tail(struct tail *t, uint64_t length_ns)
{
	char length[DURATION_TEXT_BYTES];

	page_set_tail(t, snprintf(t->text, sizeof(t->text), "\",window=\"%s\"} ", duration_text(length_ns, length)));
}

void page_rates(const struct page *p, const struct family *f, bool (*shown)(const struct series *s),
		double (*rate)(const struct aggregate *a, size_t at, size_t w))
{
	const struct aggregate *a = p->snapshot->aggregate;
	size_t n = aggregate_windows(a);
	struct tail tails[WINDOWS_MAX];

	for (size_t w = 0; w < n && w < WINDOWS_MAX; w++)
		set_window_tail(&tails[w], aggregate_window_ns(a, w));
	page_head(p, f);
	for (const struct series *s = p->series; s < p->series + p->n_series; s++)
		for (size_t w = 0; (!shown || shown(s)) && w < n && w < WINDOWS_MAX; w++) {
			page_cgroup(p, f, NULL, s);
			strbuf_add(p->out, tails[w].text, tails[w].len);
			page_rate(p->out, rate(a, s->at, w));
			strbuf_addc(p->out, '\n');
		}
}
