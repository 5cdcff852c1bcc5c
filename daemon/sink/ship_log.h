/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shipper says: the first failure of each kind at once, then at most one line per minute and kind, with the
 * number of those left out; one line when delivery works again. Knows no clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/sink/ship_policy.h"

/* Zeroed is ready. */
struct ship_log {
	struct ship_limit limits[SHIP_TROUBLES];
	uint64_t failures; /* attempts since the last success */
	bool told;         /* that something fails */
};

/* An attempt failed; the text is made printable. */
void ship_log_failure(struct ship_log *l, enum ship_trouble kind, uint64_t now_ns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* An attempt went well. */
void ship_log_success(struct ship_log *l, const char *url);
/* Something to be told that is neither. */
void ship_log_remark(struct ship_log *l, enum ship_trouble kind, uint64_t now_ns, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
