/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of a test of the shipper: an event loop, a queue, a receiver that answers by script, and the log.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/sink/ship.h"
#include "tests/unit/http-script.h"

#define ANSWER(status, headers, body) "HTTP/1.1 " status "\r\n" headers "\r\n" body
#define EMPTY "Content-Length: 0\r\n"
#define OK ANSWER("200 OK", EMPTY, "")
#define PATIENCE_NS (5 * NSEC_PER_SEC)

struct world {
	sd_event *event;
	struct queue *queue;
	struct self_stats self;
	struct ship *ship;
	struct script_server server;
	bool serving;
	int log, stderr_before;
};

int set_up(void **state);
int tear_down(void **state);
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* All that was logged so far. */
const char *read_log(const struct world *w);
void assert_logged(const struct world *w, size_t times, const char *part);

void serve(struct world *w, const struct script_step *steps, size_t n);
#define SERVE(w, ...)                                             \
	static const struct script_step steps_[] = {__VA_ARGS__}; \
	serve(w, steps_, sizeof(steps_) / sizeof(steps_[0]))

/* Compresses, and has little patience. */
struct ship_options options_for(const char *url);
void make_ship_at(struct world *w, const char *url);
/* Of the metrics at a port of this host. */
const char *url_of(uint16_t port);
/* To the script's server. */
void make_ship(struct world *w);

/* A batch of metrics, or of logs, of `size` bytes of `mark` with 10 points or records. */
void push(struct world *w, char mark, size_t size);
void push_logs(struct world *w, char mark, size_t size);

/* One turn of the loop. */
void turn(struct world *w);
/* Runs the loop until `condition`, which must come about in reasonable time. */
#define RUN_UNTIL(w, condition)                                                                      \
	do {                                                                                         \
		uint64_t give_up_ = clock_monotonic_ns() + PATIENCE_NS;                              \
		while (!(condition)) {                                                               \
			turn(w);                                                                     \
			if (clock_monotonic_ns() > give_up_)                                         \
				fail_msg("waited in vain for %s; log: %s", #condition, read_log(w)); \
		}                                                                                    \
	} while (0)

void run_until_empty(struct world *w);
void push_and_run(struct world *w);
/* Attempts by outcome. */
void assert_counts(const struct world *w, uint64_t sent, uint64_t retried, uint64_t rejected);

/* Value of a request header, NULL if absent. */
const char *header(const struct script_request *r, const char *name);
/* Uncompresses a request's body; returns its size. */
size_t unpack(const struct script_request *r, uint8_t *out, size_t size);
