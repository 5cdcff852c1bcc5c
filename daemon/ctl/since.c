/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/since.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"

struct moment {
	struct tm tm;
	uint32_t ns;
	bool has_zone;
	int zone_seconds; /* east of UTC */
};

/* ---- times back ---- */

static uint64_t unit_ns(const char *unit)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
	    {"s", NSEC_PER_SEC}, {"m", 60 * NSEC_PER_SEC}, {"h", 3600 * NSEC_PER_SEC}, {"d", 86400 * NSEC_PER_SEC}};

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strcmp(unit, units[i].name) == 0)
			return units[i].ns;
	return 0;
}

static int parse_back(const char *text, uint64_t now_unix_ns, uint64_t *ret)
{
	size_t digits = strspn(text, "0123456789");
	uint64_t unit = unit_ns(text + digits), n = 0, back;

	if (digits == 0 || unit == 0)
		return -EINVAL;
	for (size_t i = 0; i < digits; i++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(text[i] - '0'), &n))
			return -EINVAL;
	if (__builtin_mul_overflow(n, unit, &back))
		return -EINVAL;
	*ret = back < now_unix_ns ? now_unix_ns - back : 0;
	return 0;
}

/* ---- dates ---- */

static int from_seconds(time_t seconds, uint32_t ns, uint64_t *ret)
{
	if (seconds < 0) {
		*ret = 0;
		return 0;
	}
	if ((uint64_t)seconds >= UINT64_MAX / NSEC_PER_SEC)
		return -EINVAL;
	*ret = (uint64_t)seconds * NSEC_PER_SEC + ns;
	return 0;
}

static int parse_day(const char *text, uint64_t now_unix_ns, uint64_t *ret)
{
	time_t now = (time_t)(now_unix_ns / NSEC_PER_SEC);
	bool is_yesterday = strcmp(text, "yesterday") == 0;
	struct tm tm;

	if ((!is_yesterday && strcmp(text, "today") != 0) || !localtime_r(&now, &tm))
		return -EINVAL;
	tm.tm_mday -= is_yesterday;
	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	tm.tm_isdst = -1;
	return from_seconds(mktime(&tm), 0, ret);
}

/* Reads exactly `digits` digits, the value in [low, high]. */
static bool take_number(const char **at, int digits, int low, int high, int *ret)
{
	int value = 0;

	for (int i = 0; i < digits; i++, (*at)++) {
		if (**at < '0' || **at > '9')
			return false;
		value = 10 * value + (**at - '0');
	}
	*ret = value;
	return value >= low && value <= high;
}

static bool take_char(const char **at, const char *allowed)
{
	if (!**at || !strchr(allowed, **at))
		return false;
	(*at)++;
	return true;
}

static int days_of(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && is_leap);
}

static bool take_date(const char **at, struct moment *m)
{
	int year = 0, month = 0;

	if (!take_number(at, 4, 1, 9999, &year) || !take_char(at, "-") || !take_number(at, 2, 1, 12, &month) ||
	    !take_char(at, "-") || !take_number(at, 2, 1, days_of(year, month), &m->tm.tm_mday))
		return false;
	m->tm.tm_year = year - 1900;
	m->tm.tm_mon = month - 1;
	return true;
}

/* What is finer than a nanosecond is cut. */
static bool take_fraction(const char **at, uint32_t *ret_ns)
{
	uint32_t place = 100000000;

	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; (*at)++, place /= 10)
		*ret_ns += (uint32_t)(**at - '0') * place;
	return true;
}

static bool take_clock(const char **at, struct moment *m)
{
	if (!take_number(at, 2, 0, 23, &m->tm.tm_hour) || !take_char(at, ":") ||
	    !take_number(at, 2, 0, 59, &m->tm.tm_min))
		return false;
	if (!take_char(at, ":"))
		return true;
	if (!take_number(at, 2, 0, 60, &m->tm.tm_sec))
		return false;
	return !take_char(at, ".") || take_fraction(at, &m->ns);
}

static bool take_zone(const char **at, struct moment *m)
{
	int sign = **at == '-' ? -1 : 1, hours = 0, minutes = 0;

	if (!**at)
		return true;
	m->has_zone = true;
	if (take_char(at, "Zz"))
		return true;
	if (!take_char(at, "+-") || !take_number(at, 2, 0, 23, &hours) || !take_char(at, ":") ||
	    !take_number(at, 2, 0, 59, &minutes))
		return false;
	m->zone_seconds = sign * (3600 * hours + 60 * minutes);
	return true;
}

static int parse_date(const char *text, uint64_t *ret)
{
	struct moment m = {.tm.tm_isdst = -1};

	if (!take_date(&text, &m))
		return -EINVAL;
	if (*text && (!take_char(&text, "Tt ") || !take_clock(&text, &m) || !take_zone(&text, &m) || *text))
		return -EINVAL;
	return from_seconds(m.has_zone ? timegm(&m.tm) - m.zone_seconds : mktime(&m.tm), m.ns, ret);
}

int since_parse(const char *text, uint64_t now_unix_ns, uint64_t *ret_unix_ns)
{
	if (parse_back(text, now_unix_ns, ret_unix_ns) == 0 || parse_day(text, now_unix_ns, ret_unix_ns) == 0)
		return 0;
	return parse_date(text, ret_unix_ns);
}
