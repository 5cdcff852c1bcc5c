/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent when, and what becomes of a batch; ship_http.c does the talking, ship_policy.c the judging.
 *
 * A lane is one kind of batches on its way to one URL: idle, busy (its batch is under way and held in the queue; one
 * lane at a time) or waiting (for the time of the next attempt).
 */
#include "daemon/sink/ship.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/sink/gzip.h"
#include "daemon/sink/otlp.h"
#include "daemon/sink/ship_http.h"
#include "daemon/sink/ship_log.h"
#include "daemon/sink/ship_policy.h"

#define BACKOFF_MIN_NS NSEC_PER_SEC
#define BACKOFF_MAX_NS (60 * NSEC_PER_SEC)
#define TIMER_ACCURACY_USEC 10000

struct lane {
	struct ship *ship;
	enum queue_kind kind;
	const char *noun; /* what its batches are made of */
	/* Counters of that. */
	uint64_t *delivered, *partial, *rejected, *too_large, *unsupported;
	char *url;
	sd_event_source *retry_timer;
	bool waiting;
	bool taken; /* the receiver took a batch */
	bool told_unsupported;
	uint64_t failures; /* attempts in a row that ended in a retry */
	struct ship_log log;
	uint8_t *packed; /* compressed body of batch packed_id, kept for the next attempt */
	size_t packed_size;
	uint64_t packed_id;
};

struct ship {
	struct queue *queue;
	struct self_stats *self;
	uint64_t backoff_min_ns, backoff_max_ns;
	bool gzip;
	struct ship_http *http;
	struct lane lanes[QUEUE_KINDS];
	struct lane *last; /* the lane whose request is under way, or was the last that was */

	struct queue_item item; /* of the request under way */
	bool compressed;        /* it is sent so */
};

static uint64_t random_number(void)
{
	uint64_t number;

	/* Early at boot there may be none yet; any number does for jitter. */
	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
		number = (clock_monotonic_ns() * UINT64_C(0x9e3779b97f4a7c15)) >> 16;
	return number;
}

/* ---- waiting ---- */

static uint64_t retry_delay(const struct lane *l, const char *retry_after)
{
	const struct ship *s = l->ship;
	uint64_t asked;

	if (!*retry_after || ship_retry_after(retry_after, clock_realtime_ns(), &asked) < 0)
		return ship_backoff_ns(l->failures, s->backoff_min_ns, s->backoff_max_ns, random_number());
	/* "At once" from a receiver in trouble would have us hammer it. */
	return asked > s->backoff_min_ns ? asked : s->backoff_min_ns;
}

/* If the timer fails the next kick tries again. */
static void begin_waiting(struct lane *l, uint64_t delay_ns)
{
	int r = sd_event_source_set_time(l->retry_timer, (clock_monotonic_ns() + delay_ns) / NSEC_PER_USEC);

	if (r >= 0)
		r = sd_event_source_set_enabled(l->retry_timer, SD_EVENT_ONESHOT);
	l->waiting = r >= 0;
}

static void retry_later(struct lane *l, enum ship_trouble kind, const char *retry_after, const char *what)
{
	struct ship *s = l->ship;
	uint64_t delay;

	l->failures++;
	s->self->ship_retried++;
	queue_release(s->queue, s->item.id);
	delay = retry_delay(l, retry_after);
	begin_waiting(l, delay);
	ship_log_failure(&l->log, kind, clock_monotonic_ns(), "cannot deliver to %s: %s; trying again in %.1f s",
			 l->url, what, (double)delay / (double)NSEC_PER_SEC);
}

/* ---- what becomes of a batch ---- */

static void forget_batch(struct lane *l)
{
	l->failures = 0;
	(void)queue_ack(l->ship->queue, l->ship->item.id); /* it is held, hence the oldest */
	free(take_ptr(l->packed));
}

static void sent(struct lane *l, const struct ship_http_result *result)
{
	struct ship *s = l->ship;
	char message[256];
	uint64_t refused = otlp_parse_response(result->body, result->body_len, message, sizeof(message));

	if (refused > s->item.points)
		refused = s->item.points;
	s->self->ship_sent++;
	*l->delivered += s->item.points - refused;
	*l->partial += refused;
	s->self->ship_bytes += s->compressed ? l->packed_size : s->item.size;
	forget_batch(l);
	l->taken = true;
	l->told_unsupported = false;
	ship_log_success(&l->log, l->url);
	if (refused || message[0])
		ship_log_remark(&l->log, SHIP_TROUBLE_PARTIAL, clock_monotonic_ns(),
				"%s took a batch but refused %" PRIu64 " of its %zu %s, ignoring: %s", l->url, refused,
				s->item.points, l->noun, message[0] ? message : "no reason given");
}

static void dropped(struct lane *l, const struct ship_http_result *result, uint64_t *counter)
{
	struct ship *s = l->ship;

	s->self->ship_rejected++;
	*counter += s->item.points;
	forget_batch(l);
	ship_log_failure(&l->log, ship_trouble_of(result->status), clock_monotonic_ns(),
			 "%s refused a batch of %zu %s, which are dropped: HTTP %ld, %s%s%s", l->url, s->item.points,
			 l->noun, result->status, ship_status_hint(result->status), *result->text ? "; " : "",
			 result->text);
}

static void unsupported(struct lane *l, const struct ship_http_result *result)
{
	struct ship *s = l->ship;

	s->self->ship_rejected++;
	*l->unsupported += s->item.points;
	forget_batch(l);
	if (l->told_unsupported) {
		l->log.failures++;
		return;
	}
	l->told_unsupported = true;
	ship_log_failure(&l->log, ship_trouble_of(result->status), clock_monotonic_ns(),
			 "%s takes no %s (HTTP %ld), ignoring: they are dropped and counted, metrics go on%s%s", l->url,
			 l->noun, result->status, *result->text ? "; " : "", result->text);
}

static void send_uncompressed(struct lane *l)
{
	struct ship *s = l->ship;

	s->gzip = false;
	s->self->ship_retried++;
	queue_release(s->queue, s->item.id);
	free(take_ptr(l->packed));
	ship_log_remark(&l->log, SHIP_TROUBLE_COMPRESSION, clock_monotonic_ns(),
			"%s does not take gzip (HTTP 415), sending without compression from now on", l->url);
}

static void settle(struct lane *l, const struct ship_http_result *result)
{
	char what[128];

	switch (ship_outcome_of(l->kind, result->status, l->ship->compressed, l->taken)) {
	case SHIP_SENT:
		sent(l, result);
		return;
	case SHIP_RETRY:
		snprintf(what, sizeof(what), "HTTP %ld, %s", result->status, ship_status_hint(result->status));
		retry_later(l, ship_trouble_of(result->status), result->retry_after, what);
		return;
	case SHIP_UNCOMPRESSED:
		send_uncompressed(l);
		return;
	case SHIP_TOO_LARGE:
		dropped(l, result, l->too_large);
		return;
	case SHIP_REJECTED:
		dropped(l, result, l->rejected);
		return;
	case SHIP_UNSUPPORTED:
		unsupported(l, result);
		return;
	}
}

/* ---- sending ---- */

/* The body to send; compressed once per batch. Without memory for that it goes as it is. */
static void choose_body(struct lane *l, const uint8_t **ret, size_t *ret_size)
{
	struct ship *s = l->ship;

	if (l->packed && l->packed_id != s->item.id)
		free(take_ptr(l->packed));
	if (s->gzip && !l->packed && gzip_compress(s->item.data, s->item.size, &l->packed, &l->packed_size) == 0)
		l->packed_id = s->item.id;
	s->compressed = s->gzip && l->packed;
	*ret = s->compressed ? l->packed : s->item.data;
	*ret_size = s->compressed ? l->packed_size : s->item.size;
}

/* True if a request is under way now. */
static bool begin(struct lane *l)
{
	struct ship *s = l->ship;
	const uint8_t *body;
	size_t size;

	if (l->waiting || queue_peek(s->queue, l->kind, &s->item) < 0)
		return false;
	s->last = l;
	choose_body(l, &body, &size);
	if (ship_http_post(s->http, l->url, body, size, s->compressed) == 0)
		return true;
	retry_later(l, SHIP_TROUBLE_OTHER, "", "out of memory");
	return false;
}

void ship_kick(struct ship *s)
{
	size_t first;

	if (!s || ship_http_busy(s->http))
		return;
	first = (size_t)(s->last - s->lanes) + 1;
	for (size_t at = 0; at < QUEUE_KINDS; at++)
		if (begin(&s->lanes[(first + at) % QUEUE_KINDS]))
			return;
}

static void on_done(const struct ship_http_result *result, void *userdata)
{
	struct ship *s = userdata;

	if (result->status)
		settle(s->last, result);
	else
		retry_later(s->last, result->trouble, "", result->text);
	ship_kick(s);
}

static int on_retry(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct lane *l = userdata;

	l->waiting = false;
	ship_kick(l->ship);
	return 0;
}

void ship_count_dropped(struct self_stats *self, const struct queue_dropped *dropped)
{
	self->drop_queue_full += dropped->points[QUEUE_METRICS];
	self->drop_log_queue_full += dropped->points[QUEUE_LOGS];
}

/* ---- life ---- */

/* Metrics are never unsupported: a receiver that refuses them all is a mistake, not a choice. */
static void name_counters(struct ship *s)
{
	struct self_stats *self = s->self;

	s->lanes[QUEUE_METRICS] = (struct lane){.noun = "data points",
						.delivered = &self->ship_points,
						.partial = &self->drop_partial,
						.rejected = &self->drop_rejected,
						.too_large = &self->drop_too_large,
						.unsupported = &self->drop_rejected};
	s->lanes[QUEUE_LOGS] = (struct lane){.noun = "log records",
					     .delivered = &self->ship_log_records,
					     .partial = &self->drop_log_partial,
					     .rejected = &self->drop_log_rejected,
					     .too_large = &self->drop_log_too_large,
					     .unsupported = &self->drop_log_unsupported};
}

static int set_up_lane(struct ship *s, enum queue_kind kind, sd_event *event, const char *endpoint)
{
	struct lane *l = &s->lanes[kind];
	int r;

	l->ship = s;
	l->kind = kind;
	r = ship_url(endpoint, kind, &l->url);
	if (r < 0)
		return r;
	r = sd_event_add_time(event, &l->retry_timer, CLOCK_MONOTONIC, UINT64_MAX, TIMER_ACCURACY_USEC, on_retry, l);
	return r < 0 ? r : sd_event_source_set_enabled(l->retry_timer, SD_EVENT_OFF);
}

static int set_up(struct ship *s, sd_event *event, const struct ship_options *o)
{
	int r = 0;

	name_counters(s);
	for (size_t kind = 0; kind < QUEUE_KINDS && r >= 0; kind++)
		r = set_up_lane(s, kind, event, o->endpoint);
	s->last = &s->lanes[QUEUE_KINDS - 1]; /* so the first comes first */
	return r < 0 ? r : ship_http_new(event, o, on_done, s, &s->http);
}

int ship_new(sd_event *event, const struct ship_options *options, struct queue *queue, struct self_stats *self,
	     struct ship **ret)
{
	struct ship *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->queue = queue;
	s->self = self;
	s->gzip = options->gzip;
	s->backoff_min_ns = options->backoff_min_ns ? options->backoff_min_ns : BACKOFF_MIN_NS;
	s->backoff_max_ns = options->backoff_max_ns ? options->backoff_max_ns : BACKOFF_MAX_NS;
	r = set_up(s, event, options);
	if (r < 0) {
		ship_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct ship *ship_free(struct ship *s)
{
	if (!s)
		return NULL;
	if (ship_busy(s))
		queue_release(s->queue, s->item.id);
	ship_http_free(s->http);
	for (struct lane *l = s->lanes; l < s->lanes + QUEUE_KINDS; l++) {
		sd_event_source_disable_unref(l->retry_timer);
		free(l->packed);
		free(l->url);
	}
	free(s);
	return NULL;
}

int ship_busy(const struct ship *s)
{
	return s->http && ship_http_busy(s->http);
}
