/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP POST at a time, inside the caller's event loop: the transport under ship.c. The only file of the
 * sinks that sees libcurl.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "daemon/sink/ship.h"
#include "daemon/sink/ship_policy.h"

struct ship_http;

/* How a request ended. An answer counts once its head is complete, whatever happened to its body. */
struct ship_http_result {
	long status;               /* 0: no answer, then `trouble` says why */
	enum ship_trouble trouble; /* kind of failure without an answer */
	const char
	    *text; /* that failure in plain words; with a status: where it redirects to or what its body says, or "" */
	const char *retry_after; /* value of the header, "" if none */
	const uint8_t *body;     /* a whole body that may be protobuf; empty if it is of another type or too long */
	size_t body_len;
};

/* Called once for each request, from the event loop, never from within a call below. What it is handed lives until it
 * returns or begins another request. */
typedef void (*ship_http_done)(const struct ship_http_result *result, void *userdata);

/* Uses timeout, headers and user agent of the options; they are copied. -EINVAL for a header that cannot be
 * sent, -ENOMEM. */
int ship_http_new(sd_event *event, const struct ship_options *options, ship_http_done done, void *userdata,
		  struct ship_http **ret);
/* Drops a request under way without a call to `done`. Never waits. Accepts NULL, returns NULL. */
struct ship_http *ship_http_free(struct ship_http *h);
/* Begins a request; the body is borrowed until its end, the URL copied. May be called from `done`. -EBUSY, -ENOMEM. */
int ship_http_post(struct ship_http *h, const char *url, const uint8_t *body, size_t len, bool compressed);
bool ship_http_busy(const struct ship_http *h);
