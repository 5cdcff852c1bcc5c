/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/negotiate.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "daemon/sink/exposition.h"

#define Q_MAX 1000

struct span {
	const char *at; /* into the header, not terminated */
	size_t len;
};

/* An element of a weighted list. */
struct item {
	struct span value;   /* "text/plain", "*" ... never empty */
	struct span version; /* parameter `version` without quotes; len 0 if none */
	unsigned q;          /* in thousandths: 0 (not acceptable) to Q_MAX */
};

/* ---- weighted lists ---- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static struct span trim(const char *from, const char *to)
{
	while (from < to && is_space(*from))
		from++;
	while (to > from && is_space(to[-1]))
		to--;
	return (struct span){.at = from, .len = (size_t)(to - from)};
}

/* Where the part that begins at `p` ends: at `stop` outside a quoted string, at `end` (NULL: none), or at the NUL. */
static const char *part_end(const char *p, const char *end, char stop)
{
	bool quoted = false;

	for (; p != end && *p; p++) {
		if (quoted && *p == '\\' && p + 1 != end && p[1])
			p++;
		else if (*p == '"')
			quoted = !quoted;
		else if (*p == stop && !quoted)
			break;
	}
	return p;
}

/* Compares without regard to case. */
static bool span_is(struct span span, const char *text)
{
	return strlen(text) == span.len && strncasecmp(span.at, text, span.len) == 0;
}

/* 0, 1, 0.5, 0.123, 1.000: a digit and at most three behind the point. */
static bool parse_weight(struct span text, unsigned *ret)
{
	unsigned q, scale = 100;

	if (text.len == 0 || text.len > 5 || (text.at[0] != '0' && text.at[0] != '1'))
		return false;
	if (text.len > 1 && text.at[1] != '.')
		return false;
	q = (unsigned)(text.at[0] - '0') * Q_MAX;
	for (size_t i = 2; i < text.len; i++, scale /= 10) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return false;
		q += (unsigned)(text.at[i] - '0') * scale;
	}
	if (q > Q_MAX)
		return false;
	*ret = q;
	return true;
}

/* One `name=value`; false only for a weight that makes no sense. */
static bool parse_parameter(const char *from, const char *to, struct item *item)
{
	const char *equals = memchr(from, '=', (size_t)(to - from));
	struct span name, value;

	if (!equals)
		return true;
	name = trim(from, equals);
	value = trim(equals + 1, to);
	if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"')
		value = (struct span){.at = value.at + 1, .len = value.len - 2};
	if (span_is(name, "version"))
		item->version = value;
	if (span_is(name, "q"))
		return parse_weight(value, &item->q);
	return true;
}

static bool parse_item(const char *from, const char *to, struct item *ret)
{
	struct item item = {.q = Q_MAX};
	const char *end = part_end(from, to, ';');

	item.value = trim(from, end);
	while (end < to) {
		const char *begin = end + 1;

		end = part_end(begin, to, ';');
		if (!parse_parameter(begin, end, &item))
			return false;
	}
	*ret = item;
	return item.value.len > 0;
}

/* The next element; *cursor begins at the header and moves on. False at the end. Empty elements and those whose weight
 * cannot be understood are passed over. */
static bool next_item(const char **cursor, struct item *ret)
{
	const char *p = *cursor;

	while (*p) {
		const char *end = part_end(p, NULL, ',');
		bool good = parse_item(p, end, ret);

		p = *end ? end + 1 : end;
		*cursor = p;
		if (good)
			return true;
	}
	return false;
}

/* ---- Accept-Encoding ---- */

bool negotiate_gzip(const char *header)
{
	int gzip = -1, identity = -1, any = -1;
	struct item item;

	if (!header)
		return false;
	while (next_item(&header, &item)) {
		if (span_is(item.value, "gzip") || span_is(item.value, "x-gzip"))
			gzip = (int)item.q;
		else if (span_is(item.value, "identity"))
			identity = (int)item.q;
		else if (span_is(item.value, "*"))
			any = (int)item.q;
	}
	if (gzip < 0)
		gzip = any;
	/* Unless named, no compression is acceptable but ranks below what is. */
	return gzip > 0 && gzip >= identity;
}

/* ---- Accept ---- */

/* How an Accept header ranks one format: what is more specific counts (RFC 9110 section 12.5.1), then the greater
 * weight. */
struct rank {
	int specific; /* 0 not mentioned, then by any type, type, subtype, version */
	unsigned q;
};

static bool version_is_spoken(struct span version, const char *const spoken[2])
{
	return version.len == 0 || span_is(version, spoken[0]) || span_is(version, spoken[1]);
}

static void rank_item(struct rank *rank, const struct item *item, const char *type, const char *subtypes,
		      const char *const versions[2])
{
	int specific = 0;

	if (span_is(item->value, "*/*"))
		specific = 1;
	else if (span_is(item->value, subtypes))
		specific = 2;
	else if (span_is(item->value, type) && version_is_spoken(item->version, versions))
		specific = item->version.len ? 4 : 3;
	if (specific == 0 || specific < rank->specific)
		return;
	if (specific > rank->specific || item->q > rank->q)
		*rank = (struct rank){.specific = specific, .q = item->q};
}

enum exposition_format exposition_negotiate(const char *accept)
{
	/* Text 1.0.0 only adds quoted names to 0.0.4, which ours do not need. */
	static const char *const text_versions[2] = {"0.0.4", "1.0.0"}, *const open_versions[2] = {"1.0.0", "1.0.0"};
	struct rank text = {0}, open = {0};
	struct item item;

	while (accept && next_item(&accept, &item)) {
		rank_item(&text, &item, "text/plain", "text/*", text_versions);
		rank_item(&open, &item, "application/openmetrics-text", "application/*", open_versions);
	}
	/* Whoever only takes anything did not ask for OpenMetrics. */
	if (open.q > text.q || (open.q > 0 && open.q == text.q && open.specific >= 3))
		return EXPOSITION_OPENMETRICS;
	return EXPOSITION_TEXT;
}
