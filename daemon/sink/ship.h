/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery of batches to a collector by HTTP POST, on libcurl's multi interface inside the caller's event loop.
 * ship_http.c is the only file of the sinks that sees libcurl. Nothing here blocks, and no network event ends the
 * process. Proxies are taken from the environment as libcurl does (http_proxy in lower case, HTTPS_PROXY, ALL_PROXY,
 * NO_PROXY).
 *
 * Metrics go to /v1/metrics of the endpoint, logs to /v1/logs. One request is under way at a time; while both kinds
 * have batches they take turns. Each kind retries and waits by itself, so trouble at one path costs the other kind no
 * more than the time-out of a request at each turn. The outcome of a request is one of
 *
 * - sent: 2xx. Rejected points or records in a partial success are counted, the batch is never sent again.
 * - retry: 429, 502, 503, 504, connection or TLS trouble, time-out. Again after the server's Retry-After (seconds or
 *   HTTP date, capped at 5 min) or after a backoff from 1 s to 1 min with jitter.
 * - too large: 413. The batch cannot be made smaller here, it is dropped and counted as too_large.
 * - unsupported: 404, 405, 501, or 400 as long as none got through, to logs: many receivers take metrics only. Dropped
 *   and counted; said once, until logs get through. The next batch of logs is tried again, for the receiver may have
 *   learnt it.
 * - rejected: any other status, redirects too. Dropped and counted.
 *
 * An answer counts once its head is complete, whatever happens to its body. A 415 while compressing falls back to no
 * compression for as long as this shipper lives. Failures are logged at once and then once a minute for each kind of
 * batch and of failure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "daemon/model/self.h"
#include "daemon/sink/queue.h"

struct ship;

struct ship_header {
	const char *name;
	const char *value;
};

struct ship_options {
	const char *endpoint; /* as users write it; see ship_url() */
	uint64_t timeout_ns;
	int gzip; /* compress bodies */
	const struct ship_header *headers;
	size_t n_headers;
	const char *user_agent;
	uint64_t backoff_min_ns; /* 0: 1 s */
	uint64_t backoff_max_ns; /* 0: 1 min */
};

/* The URL for a kind of batch at an endpoint as users write it: /v1/metrics or /v1/logs is appended to a base URL, or
 * takes the place of either at the end of the path. Caller frees *ret. -EINVAL for anything but http:// and https://
 * URLs, or with a user, password, query or fragment. */
int ship_url(const char *endpoint, enum queue_kind signal, char **ret);

/* -EINVAL for an endpoint that ship_url() refuses or a header that cannot be sent. Options are copied; the queue, the
 * counters (ship_*, drop_rejected, drop_too_large, drop_partial and drop_log_*) and the event loop are borrowed and
 * must outlive the shipper. */
int ship_new(sd_event *event, const struct ship_options *options, struct queue *queue, struct self_stats *self,
	     struct ship **ret);
/* Drops a request under way (its batch stays in the queue). Never waits. Accepts NULL, returns NULL. */
struct ship *ship_free(struct ship *s);
/* Something was pushed: begins sending if nothing is under way and no retry of that kind is pending. */
void ship_kick(struct ship *s);
/* Milliseconds are not waited for: true while a request is under way. */
int ship_busy(const struct ship *s);
/* Counts what gave way in the queue, by kind. */
void ship_count_dropped(struct self_stats *self, const struct queue_dropped *dropped);
