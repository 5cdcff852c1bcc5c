/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/ship_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "daemon/base/log.h"

static bool tell(struct ship_log *l, enum ship_trouble kind, uint64_t now_ns, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));

static bool tell(struct ship_log *l, enum ship_trouble kind, uint64_t now_ns, const char *format, va_list args)
{
	uint64_t left_out;
	char text[1024];

	if (!ship_limit_pass(&l->limits[kind], now_ns, &left_out))
		return false;
	vsnprintf(text, sizeof(text), format, args);
	ship_make_printable(text);
	if (left_out)
		log_warning("%s (%" PRIu64 " more like this since the last such line)", text, left_out);
	else
		log_warning("%s", text);
	return true;
}

void ship_log_failure(struct ship_log *l, enum ship_trouble kind, uint64_t now_ns, const char *format, ...)
{
	va_list args;

	l->failures++;
	va_start(args, format);
	l->told |= tell(l, kind, now_ns, format, args);
	va_end(args);
}

void ship_log_success(struct ship_log *l, const char *url)
{
	if (l->told)
		log_notice("delivery to %s resumed after %" PRIu64 " failed attempt%s", url, l->failures,
			   l->failures == 1 ? "" : "s");
	l->failures = 0;
	l->told = false;
}

void ship_log_remark(struct ship_log *l, enum ship_trouble kind, uint64_t now_ns, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	tell(l, kind, now_ns, format, args);
	va_end(args);
}
