/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/selftest_report.h"

#include <inttypes.h>

#include "daemon/base/strbuf.h"
#include "daemon/base/utf8.h"
#include "daemon/ctl/selftest_judge.h"

#define NAME_COLUMNS 26
#define EXPECTED_COLUMNS 38

static const char *const words[SELFTEST_RESULTS] = {
    [SELFTEST_PASS] = "pass",
    [SELFTEST_FAIL] = "FAIL",
    [SELFTEST_SKIP] = "skipped",
    [SELFTEST_INFO] = "info",
};
static const char *const json_words[SELFTEST_RESULTS] = {
    [SELFTEST_PASS] = "pass",
    [SELFTEST_FAIL] = "fail",
    [SELFTEST_SKIP] = "skipped",
    [SELFTEST_INFO] = "info",
};

/* ---- JSON ---- */

static void add_json_string(struct strbuf *b, const char *key, const char *value)
{
	strbuf_addf(b, ",\"%s\":\"", key);
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		if (c < 0x20 || c == '"' || c == '\\')
			strbuf_addf(b, "\\u%04x", (unsigned)c);
		else
			strbuf_addc(b, *value);
	}
	strbuf_addc(b, '"');
}

static void add_json_expected(struct strbuf *b, const struct selftest_case *c, const char *code)
{
	if (!c->signal) {
		strbuf_adds(b, ",\"expected\":null");
		return;
	}
	strbuf_addf(b,
		    ",\"expected\":{\"signal\":\"%s\",\"code\":\"%s\",\"handled\":%" PRIu32 ",\"fatal\":%" PRIu32 "}",
		    c->signal, selftest_counted_code(c, code), c->handled, c->fatal);
}

static void print_json(const struct selftest_report *report, const struct selftest_row *row)
{
	auto_strbuf b = {0};

	strbuf_addf(&b, "{\"case\":\"%s\"", row->name);
	if (row->c)
		add_json_expected(&b, row->c, row->code);
	add_json_string(&b, "result", json_words[row->result]);
	add_json_string(&b, "text", row->text);
	if (row->c)
		strbuf_addf(&b, ",\"daemon\":%s", row->cgroup ? "true" : "false");
	if (row->cgroup)
		add_json_string(&b, "cgroup", row->cgroup);
	if (!strbuf_error(&b))
		fprintf(report->to, "%s}\n", b.data);
}

/* ---- text ---- */

void selftest_report_head(const struct selftest_report *report)
{
	if (!report->json)
		fprintf(report->to, "%-*s %-*s %s\n", NAME_COLUMNS, "CASE", EXPECTED_COLUMNS, "EXPECTED", "RESULT");
}

static void print_text(const struct selftest_report *report, const struct selftest_row *row)
{
	auto_strbuf expected = {0};

	if (row->c)
		selftest_expected(row->c, row->code, &expected);
	fprintf(report->to, "%-*s %-*s %s", NAME_COLUMNS, row->name, EXPECTED_COLUMNS,
		expected.data ? expected.data : "", words[row->result]);
	if (row->result == SELFTEST_PASS && !report->with_daemon)
		fprintf(report->to, " (kernel only)");
	else if (row->text[0])
		fprintf(report->to, "%s%s", row->result == SELFTEST_FAIL ? " " : ": ", row->text);
	fputc('\n', report->to);
}

void selftest_report_row(struct selftest_report *report, const struct selftest_row *row)
{
	report->count[row->result]++;
	if (report->json)
		print_json(report, row);
	else
		print_text(report, row);
	fflush(report->to);
}

void selftest_report_sum(const struct selftest_report *report)
{
	if (!report->json)
		fprintf(report->to, "%u passed, %u failed, %u skipped%s\n", report->count[SELFTEST_PASS],
			report->count[SELFTEST_FAIL], report->count[SELFTEST_SKIP],
			report->with_daemon ? "" : "; the daemon was not asked");
	fflush(report->to);
}

void selftest_report_list(FILE *to, bool json)
{
	for (size_t i = 0; i < selftest_n_cases; i++) {
		const struct selftest_case *c = &selftest_cases[i];
		auto_strbuf b = {0};

		if (json) {
			strbuf_addf(&b, "{\"case\":\"%s\"", c->name);
			add_json_expected(&b, c, NULL);
			add_json_string(&b, "about", c->about);
			strbuf_adds(&b, "}");
			fprintf(to, "%s\n", b.data ? b.data : "");
			continue;
		}
		selftest_expected(c, NULL, &b);
		fprintf(to, "%-*s %-*s %s%s\n", NAME_COLUMNS, c->name, EXPECTED_COLUMNS, b.data ? b.data : "", c->about,
			c->flags & SELFTEST_ON_REQUEST ? " (only if asked for by name)" : "");
	}
}
