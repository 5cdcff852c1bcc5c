/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/ship_policy.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/sink/ship.h"

#define LOG_INTERVAL_NS (60 * NSEC_PER_SEC)

/* ---- URL ---- */

static const char *const signal_paths[QUEUE_KINDS] = {[QUEUE_METRICS] = "/v1/metrics", [QUEUE_LOGS] = "/v1/logs"};

/* Length of "http://" or "https://" at the start, 0 if neither. */
static size_t scheme_length(const char *url)
{
	if (strncasecmp(url, "http://", 7) == 0)
		return 7;
	return strncasecmp(url, "https://", 8) == 0 ? 8 : 0;
}

/* Printable ASCII without what would end or hide the path, and without what no URL holds. */
static bool characters_valid(const char *url)
{
	for (const char *c = url; *c; c++)
		if (*c <= ' ' || *c > '~' || strchr("?#\\\"<>^`{|}", *c))
			return false;
	return true;
}

static bool port_valid(const char *port, const char *end)
{
	unsigned long value = 0;

	if (port == end || end - port > 5)
		return false;
	for (; port < end; port++) {
		if (!isdigit((unsigned char)*port))
			return false;
		value = value * 10 + (unsigned long)(*port - '0');
	}
	return value >= 1 && value <= 65535;
}

static bool host_valid(const char *host, const char *end)
{
	for (const char *c = host; c < end; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-._~", *c))
			return false;
	return host < end;
}

/* "[v6]" with or without a port; the address itself is left to the resolver. */
static bool bracketed_valid(const char *host, const char *end)
{
	const char *close = memchr(host, ']', (size_t)(end - host));
	bool zone = false;

	if (!close || close == host + 1)
		return false;
	for (const char *c = host + 1; c < close; c++) {
		zone |= *c == '%'; /* an interface's name follows */
		if (!(zone ? isalnum((unsigned char)*c) : isxdigit((unsigned char)*c)) &&
		    !strchr(zone ? "%-._~" : ":.", *c))
			return false;
	}
	return close + 1 == end || (close[1] == ':' && port_valid(close + 2, end));
}

/* `authority` up to `end`: host or host:port; a user or password would show in logs and process lists. */
static bool authority_valid(const char *authority, const char *end)
{
	const char *colon;

	if (authority < end && *authority == '[')
		return bracketed_valid(authority, end);
	colon = memchr(authority, ':', (size_t)(end - authority));
	if (colon && !port_valid(colon + 1, end))
		return false;
	return host_valid(authority, colon ? colon : end);
}

/* Length of `url` without a signal's path at its end; the path begins at `path` or behind. */
static size_t base_length(const char *url, const char *path, size_t len)
{
	for (size_t at = 0; at < QUEUE_KINDS; at++) {
		size_t n = strlen(signal_paths[at]);

		if ((size_t)(url + len - path) >= n && strncmp(url + len - n, signal_paths[at], n) == 0)
			return len - n;
	}
	return len;
}

int ship_url(const char *endpoint, enum queue_kind signal, char **ret)
{
	size_t scheme = scheme_length(endpoint), len = strlen(endpoint);
	const char *path = endpoint + scheme + strcspn(endpoint + scheme, "/");
	char *url;

	if (!scheme || !characters_valid(endpoint) || !authority_valid(endpoint + scheme, path))
		return -EINVAL;
	while (endpoint + len > path && endpoint[len - 1] == '/')
		len--;
	if (asprintf(&url, "%.*s%s", (int)base_length(endpoint, path, len), endpoint, signal_paths[signal]) < 0)
		return -ENOMEM;
	*ret = url;
	return 0;
}

/* ---- answers ---- */

/* Many receivers take metrics only. VictoriaMetrics says 400 to a path that it does not know. */
static bool takes_none(enum queue_kind kind, long status, bool taken)
{
	return kind == QUEUE_LOGS && (status == 404 || status == 405 || status == 501 || (status == 400 && !taken));
}

enum ship_outcome ship_outcome_of(enum queue_kind kind, long status, bool compressed, bool taken)
{
	if (status >= 200 && status <= 299)
		return SHIP_SENT;
	switch (status) {
	case 429:
	case 502:
	case 503:
	case 504:
		return SHIP_RETRY;
	case 413:
		return SHIP_TOO_LARGE;
	case 415:
		return compressed ? SHIP_UNCOMPRESSED : SHIP_REJECTED;
	default:
		return takes_none(kind, status, taken) ? SHIP_UNSUPPORTED : SHIP_REJECTED;
	}
}

enum ship_trouble ship_trouble_of(long status)
{
	if (status >= 300 && status <= 399)
		return SHIP_TROUBLE_REDIRECT;
	switch (status) {
	case 401:
	case 403:
	case 407:
		return SHIP_TROUBLE_CREDENTIALS;
	case 404:
	case 405:
		return SHIP_TROUBLE_PATH;
	case 413:
		return SHIP_TROUBLE_TOO_LARGE;
	case 415:
		return SHIP_TROUBLE_COMPRESSION;
	case 429:
	case 502:
	case 503:
	case 504:
		return SHIP_TROUBLE_BUSY;
	default:
		return SHIP_TROUBLE_OTHER;
	}
}

const char *ship_status_hint(long status)
{
	if (status >= 300 && status <= 399)
		return "redirects are not followed, ship.endpoint must name the right place itself";
	switch (status) {
	case 400:
		return "the request was found malformed";
	case 401:
		return "credentials are missing or wrong, see ship.headers";
	case 403:
		return "these credentials do not permit it, see ship.headers";
	case 404:
	case 405:
		return "the path in ship.endpoint is probably wrong";
	case 407:
		return "the proxy wants credentials";
	case 413:
		return "the batch is too large for the receiver";
	case 415:
		return "the format or its compression is not supported";
	case 429:
		return "the receiver asks to slow down";
	case 502:
	case 503:
	case 504:
		return "the receiver is not ready";
	default:
		return "the receiver refuses";
	}
}

/* ---- Retry-After ---- */

static int month_of(const char *name)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	for (int at = 0; at < 12; at++)
		if (strncmp(name, months + 3 * at, 3) == 0)
			return at;
	return -1;
}

/* A year of two digits is the nearest that is not more than 50 years ahead. */
static int full_year(int year, time_t now)
{
	struct tm today = {0};
	int full;

	gmtime_r(&now, &today);
	full = (today.tm_year + 1900) / 100 * 100 + year;
	return full > today.tm_year + 1900 + 50 ? full - 100 : full;
}

/* Fills what the three formats hold: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT" and
 * "Sun Nov  6 08:49:37 1994". */
static bool scan_date(const char *text, time_t now, struct tm *tm, char month[4])
{
	int end = 0;

	if (sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", &tm->tm_mday, month, &tm->tm_year,
		   &tm->tm_hour, &tm->tm_min, &tm->tm_sec, &end) == 6 &&
	    end && !text[end])
		return true;
	end = 0;
	if (sscanf(text, "%*9[A-Za-z], %2d-%3[A-Za-z]-%2d %2d:%2d:%2d GMT%n", &tm->tm_mday, month, &tm->tm_year,
		   &tm->tm_hour, &tm->tm_min, &tm->tm_sec, &end) == 6 &&
	    end && !text[end]) {
		tm->tm_year = full_year(tm->tm_year, now);
		return true;
	}
	end = 0;
	return sscanf(text, "%*3[A-Za-z] %3[A-Za-z] %2d %2d:%2d:%2d %4d%n", month, &tm->tm_mday, &tm->tm_hour,
		      &tm->tm_min, &tm->tm_sec, &tm->tm_year, &end) == 6 &&
	       end && !text[end];
}

static int parse_date(const char *text, time_t now, time_t *ret)
{
	struct tm tm = {0};
	char month[4] = "";

	if (!scan_date(text, now, &tm, month))
		return -EINVAL;
	tm.tm_mon = month_of(month);
	if (tm.tm_mon < 0 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
	    tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60 || tm.tm_year < 1900)
		return -EINVAL;
	tm.tm_year -= 1900;
	*ret = timegm(&tm);
	return 0;
}

static uint64_t capped(uint64_t seconds)
{
	return seconds < SHIP_RETRY_AFTER_MAX_NS / NSEC_PER_SEC ? seconds * NSEC_PER_SEC : SHIP_RETRY_AFTER_MAX_NS;
}

int ship_retry_after(const char *value, uint64_t now_unix_ns, uint64_t *ret_ns)
{
	time_t now = (time_t)(now_unix_ns / NSEC_PER_SEC), then;
	uint64_t seconds = 0;
	int r;

	if (isdigit((unsigned char)*value)) {
		for (; isdigit((unsigned char)*value); value++)
			seconds = seconds < 1000000 ? seconds * 10 + (uint64_t)(*value - '0') : seconds;
		if (*value)
			return -EINVAL;
		*ret_ns = capped(seconds);
		return 0;
	}
	r = parse_date(value, now, &then);
	if (r < 0)
		return r;
	*ret_ns = then > now ? capped((uint64_t)(then - now)) : 0;
	return 0;
}

/* ---- patience ---- */

uint64_t ship_backoff_ns(uint64_t failures, uint64_t min_ns, uint64_t max_ns, uint64_t random)
{
	uint64_t span = min_ns;

	for (; failures > 0 && span < max_ns; failures--)
		span = span <= max_ns / 2 ? span * 2 : max_ns;
	if (span > max_ns)
		span = max_ns;
	span -= random % (span / 2 + 1);
	return span > min_ns ? span : min_ns;
}

bool ship_limit_pass(struct ship_limit *l, uint64_t now_ns, uint64_t *ret_held_back)
{
	if (l->used && now_ns - l->passed_ns < LOG_INTERVAL_NS) {
		l->held_back++;
		return false;
	}
	*ret_held_back = l->held_back;
	*l = (struct ship_limit){.used = true, .passed_ns = now_ns};
	return true;
}

/* ---- text ---- */

bool ship_header_valid(const char *name, const char *value)
{
	if (!*name)
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("!#$%&'*+-.^_`|~", *name))
			return false;
	for (; *value; value++)
		if (((unsigned char)*value < ' ' && *value != '\t') || *value == 0x7f)
			return false;
	return true;
}

void ship_make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}
