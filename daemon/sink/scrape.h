/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scrape endpoint: /metrics, /healthz and a landing page over HTTP, on TCP or unix sockets, inside the caller's
 * event loop. The only file that sees libmicrohttpd; compression by zlib. No request blocks the loop: answers are
 * rendered into memory, slow readers are bounded in number and time, a request beyond max_concurrent gets 503 with
 * Retry-After. When connections run out the one that has gone longest without finishing a request gives way to a new
 * one.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "daemon/model/snapshot.h"

struct scrape;

struct scrape_handlers {
	/* Called for each /metrics request before rendering: brings the counters up to date and fills *ret, valid until
	 * return to the event loop. -errno gives the client 503. */
	int (*snapshot)(struct snapshot *ret, void *userdata);
	/* A whole successful answer to /metrics was handed to the client's socket: the cgroups in it count as reported.
	 * `deaths` is that of the snapshot that was rendered. */
	void (*reported)(uint64_t deaths, void *userdata);
	/* 0 if the daemon is well: /healthz answers 200 "ok"; else 503 with the text that was put in *ret_reason
	 * (static). */
	int (*health)(const char **ret_reason, void *userdata);
	struct self_stats *self; /* scrapes, scrapes_busy, scrapes_failed and scrape_bytes are kept here */
	void *userdata;
};

/* Opens all listen addresses ("127.0.0.1:9", "[::1]:9", "unix:/path", "systemd") and hangs them on `event`. Logs which
 * one failed and why. -EADDRINUSE, -EACCES, -EINVAL, ...; on failure nothing stays open. A stale unix socket file
 * (nobody accepts) is replaced, any other file is not. `listen` is copied. Requests are served from the event loop
 * only. */
int scrape_new(sd_event *event, char *const *listen, size_t n_listen, uint32_t max_concurrent,
	       const struct scrape_handlers *handlers, struct scrape **ret);
/* Closes clients and sockets, removes unix socket files that it made. Accepts NULL, returns NULL. */
struct scrape *scrape_free(struct scrape *s);
void scrape_set_max_concurrent(struct scrape *s, uint32_t max_concurrent);
/* How long a connection may go without finishing a request, from its begin or its last one; 30 s at start. */
void scrape_set_deadline(struct scrape *s, uint64_t deadline_ns);
/* Text of address `at`, with the real port if 0 was asked for; NULL past the end. */
const char *scrape_address(const struct scrape *s, size_t at);
