/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions of ship.c on plain data: no libcurl, no clock, no dice. ship_url() lives here too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/sink/queue.h"

/* A server may ask for more patience, but a typing error of its operator must not silence a host for days. */
#define SHIP_RETRY_AFTER_MAX_NS (UINT64_C(300) * 1000 * 1000 * 1000)

enum ship_outcome {
	SHIP_SENT,
	SHIP_RETRY,        /* the same batch again, later */
	SHIP_UNCOMPRESSED, /* the same batch again at once, and nothing is compressed from now on */
	SHIP_TOO_LARGE,    /* dropped */
	SHIP_REJECTED,     /* dropped */
	SHIP_UNSUPPORTED,  /* dropped: this receiver takes no logs */
};

/* What went wrong, as far as log lines are told apart: each kind has its own limit. */
enum ship_trouble {
	SHIP_TROUBLE_NAME,
	SHIP_TROUBLE_CONNECTION,
	SHIP_TROUBLE_TLS,
	SHIP_TROUBLE_TIMEOUT,
	SHIP_TROUBLE_NOT_HTTP,
	SHIP_TROUBLE_BUSY,
	SHIP_TROUBLE_CREDENTIALS,
	SHIP_TROUBLE_PATH,
	SHIP_TROUBLE_REDIRECT,
	SHIP_TROUBLE_TOO_LARGE,
	SHIP_TROUBLE_COMPRESSION,
	SHIP_TROUBLE_PARTIAL,
	SHIP_TROUBLE_OTHER,
	SHIP_TROUBLES
};

/* What becomes of a batch of this kind after an answer with this HTTP status; `taken`: the receiver took one before. */
enum ship_outcome ship_outcome_of(enum queue_kind kind, long status, bool compressed, bool taken);
/* Kind and plain words for a status outside 2xx; never NULL. */
enum ship_trouble ship_trouble_of(long status);
const char *ship_status_hint(long status);

/* Value of a Retry-After header: seconds or one of the three date formats of HTTP (RFC 9110 5.6.7), as time to wait
 * from now, at most SHIP_RETRY_AFTER_MAX_NS; 0 for a date in the past. -EINVAL if it is neither. */
int ship_retry_after(const char *value, uint64_t now_unix_ns, uint64_t *ret_ns);

/* Time to wait after the `failures`-th failure in a row (from 1 on): a random point in the upper half of a span that
 * begins at 2 * min and doubles up to max; always within [min, max]. */
uint64_t ship_backoff_ns(uint64_t failures, uint64_t min_ns, uint64_t max_ns, uint64_t random);

/* At most one pass per minute. Zeroed is ready. */
struct ship_limit {
	bool used;
	uint64_t passed_ns;
	uint64_t held_back;
};

/* True: go ahead; *ret_held_back is how often the answer was false since the last time it was true. */
bool ship_limit_pass(struct ship_limit *l, uint64_t now_ns, uint64_t *ret_held_back);

/* True for a header field name and value that can be sent: a token, and a text without control characters. */
bool ship_header_valid(const char *name, const char *value);
/* Makes foreign text fit for a log line: control characters and bytes outside ASCII become '?'. */
void ship_make_printable(char *text);
