/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent when, and what becomes of a batch; ship_http.c does the talking, ship_policy.c the judging.
 *
 * Idle, busy (a request is under way, its batch is held in the queue) or waiting (for the time of the next attempt).
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

struct ship {
	struct queue *queue;
	struct self_stats *self;
	char *url;
	uint64_t backoff_min_ns, backoff_max_ns;
	bool gzip;
	struct ship_http *http;
	sd_event_source *retry_timer;
	bool waiting;
	uint64_t failures; /* attempts in a row that ended in a retry */
	struct ship_log log;

	struct queue_item item; /* of the request under way */
	bool compressed;        /* it is sent so */
	uint8_t *packed;        /* compressed body of batch packed_id, kept for the next attempt */
	size_t packed_size;
	uint64_t packed_id;
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

static uint64_t retry_delay(const struct ship *s, const char *retry_after)
{
	uint64_t asked;

	if (!*retry_after || ship_retry_after(retry_after, clock_realtime_ns(), &asked) < 0)
		return ship_backoff_ns(s->failures, s->backoff_min_ns, s->backoff_max_ns, random_number());
	/* "At once" from a receiver in trouble would have us hammer it. */
	return asked > s->backoff_min_ns ? asked : s->backoff_min_ns;
}

/* If the timer fails the next kick tries again. */
static void begin_waiting(struct ship *s, uint64_t delay_ns)
{
	int r = sd_event_source_set_time(s->retry_timer, (clock_monotonic_ns() + delay_ns) / NSEC_PER_USEC);

	if (r >= 0)
		r = sd_event_source_set_enabled(s->retry_timer, SD_EVENT_ONESHOT);
	s->waiting = r >= 0;
}

static void retry_later(struct ship *s, enum ship_trouble kind, const char *retry_after, const char *what)
{
	uint64_t delay;

	s->failures++;
	s->self->ship_retried++;
	queue_release(s->queue, s->item.id);
	delay = retry_delay(s, retry_after);
	begin_waiting(s, delay);
	ship_log_failure(&s->log, kind, clock_monotonic_ns(), "cannot deliver to %s: %s; trying again in %.1f s",
			 s->url, what, (double)delay / (double)NSEC_PER_SEC);
}

/* ---- what becomes of a batch ---- */

static void forget_batch(struct ship *s)
{
	s->failures = 0;
	(void)queue_ack(s->queue, s->item.id); /* it is held, hence the oldest */
	free(take_ptr(s->packed));
}

static void sent(struct ship *s, const struct ship_http_result *result)
{
	char message[256];
	uint64_t refused = otlp_parse_response(result->body, result->body_len, message, sizeof(message));

	if (refused > s->item.points)
		refused = s->item.points;
	s->self->ship_sent++;
	s->self->ship_points += s->item.points - refused;
	s->self->drop_partial += refused;
	s->self->ship_bytes += s->compressed ? s->packed_size : s->item.size;
	forget_batch(s);
	ship_log_success(&s->log, s->url);
	if (refused || message[0])
		ship_log_remark(&s->log, SHIP_TROUBLE_PARTIAL, clock_monotonic_ns(),
				"%s took a batch but refused %" PRIu64 " of its %zu data points, ignoring: %s", s->url,
				refused, s->item.points, message[0] ? message : "no reason given");
}

static void dropped(struct ship *s, const struct ship_http_result *result, uint64_t *counter)
{
	s->self->ship_rejected++;
	*counter += s->item.points;
	forget_batch(s);
	ship_log_failure(&s->log, ship_trouble_of(result->status), clock_monotonic_ns(),
			 "%s refused a batch of %zu data points, which are dropped: HTTP %ld, %s%s%s", s->url,
			 s->item.points, result->status, ship_status_hint(result->status), *result->text ? "; " : "",
			 result->text);
}

static void send_uncompressed(struct ship *s)
{
	s->gzip = false;
	s->self->ship_retried++;
	queue_release(s->queue, s->item.id);
	free(take_ptr(s->packed));
	ship_log_remark(&s->log, SHIP_TROUBLE_COMPRESSION, clock_monotonic_ns(),
			"%s does not take gzip (HTTP 415), sending without compression from now on", s->url);
}

static void settle(struct ship *s, const struct ship_http_result *result)
{
	char what[128];

	switch (ship_outcome_of(result->status, s->compressed)) {
	case SHIP_SENT:
		sent(s, result);
		return;
	case SHIP_RETRY:
		snprintf(what, sizeof(what), "HTTP %ld, %s", result->status, ship_status_hint(result->status));
		retry_later(s, ship_trouble_of(result->status), result->retry_after, what);
		return;
	case SHIP_UNCOMPRESSED:
		send_uncompressed(s);
		return;
	case SHIP_TOO_LARGE:
		dropped(s, result, &s->self->drop_too_large);
		return;
	case SHIP_REJECTED:
		dropped(s, result, &s->self->drop_rejected);
		return;
	}
}

/* ---- sending ---- */

/* The body to send; compressed once per batch. Without memory for that it goes as it is. */
static void choose_body(struct ship *s, const uint8_t **ret, size_t *ret_size)
{
	if (s->packed && s->packed_id != s->item.id)
		free(take_ptr(s->packed));
	if (s->gzip && !s->packed && gzip_compress(s->item.data, s->item.size, &s->packed, &s->packed_size) == 0)
		s->packed_id = s->item.id;
	s->compressed = s->gzip && s->packed;
	*ret = s->compressed ? s->packed : s->item.data;
	*ret_size = s->compressed ? s->packed_size : s->item.size;
}

void ship_kick(struct ship *s)
{
	const uint8_t *body;
	size_t size;

	if (!s || s->waiting || ship_http_busy(s->http) || queue_peek(s->queue, &s->item) < 0)
		return;
	choose_body(s, &body, &size);
	if (ship_http_post(s->http, body, size, s->compressed) < 0)
		retry_later(s, SHIP_TROUBLE_OTHER, "", "out of memory");
}

static void on_done(const struct ship_http_result *result, void *userdata)
{
	struct ship *s = userdata;

	if (result->status)
		settle(s, result);
	else
		retry_later(s, result->trouble, "", result->text);
	ship_kick(s);
}

static int on_retry(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct ship *s = userdata;

	s->waiting = false;
	ship_kick(s);
	return 0;
}

/* ---- life ---- */

static int set_up(struct ship *s, sd_event *event, const struct ship_options *o)
{
	int r;

	s->url = strdup(o->endpoint);
	if (!s->url)
		return -ENOMEM;
	r = sd_event_add_time(event, &s->retry_timer, CLOCK_MONOTONIC, UINT64_MAX, TIMER_ACCURACY_USEC, on_retry, s);
	if (r >= 0)
		r = sd_event_source_set_enabled(s->retry_timer, SD_EVENT_OFF);
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
	sd_event_source_disable_unref(s->retry_timer);
	free(s->packed);
	free(s->url);
	free(s);
	return NULL;
}

int ship_busy(const struct ship *s)
{
	return s->http && ship_http_busy(s->http);
}
