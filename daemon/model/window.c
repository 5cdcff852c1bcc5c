/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/model/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Ticks are numbered from 1; number 0 means none yet. Tick t lies in ring place t % longest. */
struct window_clock {
	size_t n_windows;
	uint64_t length_ns[WINDOWS_MAX];
	uint32_t ticks[WINDOWS_MAX]; /* how many ticks each window holds */
	uint32_t longest;
	uint64_t now;     /* number of the present tick */
	uint64_t *end_ns; /* ring of longest + 1: when each tick ended; tick 0 ended when counting began */
};

/* A series is caught up lazily: one that counts nothing costs nothing. Behind the header lie one sum per window, then
 * the ring of counts per tick, `longest` places long. */
struct window_series {
	uint64_t caught_up; /* the tick up to which sums and ring are true */
	uint64_t sum[];
};

static uint64_t *end_of(const struct window_clock *c, uint64_t tick)
{
	return &c->end_ns[tick % (c->longest + 1)];
}

int window_clock_new(uint64_t interval_ns, const uint64_t *windows_ns, size_t n, uint64_t start_ns,
		     struct window_clock **ret)
{
	struct window_clock *c;

	if (n == 0 || n > WINDOWS_MAX || interval_ns == 0)
		return -EINVAL;
	for (size_t w = 0; w < n; w++)
		if (windows_ns[w] < interval_ns || (w > 0 && windows_ns[w] <= windows_ns[w - 1]) ||
		    windows_ns[w] / interval_ns > UINT32_MAX / 2)
			return -EINVAL;

	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->n_windows = n;
	for (size_t w = 0; w < n; w++) {
		c->length_ns[w] = windows_ns[w];
		c->ticks[w] = (uint32_t)((windows_ns[w] + interval_ns / 2) / interval_ns);
		c->longest = c->ticks[w];
	}
	c->end_ns = calloc((size_t)c->longest + 1, sizeof(*c->end_ns));
	if (!c->end_ns) {
		window_clock_free(c);
		return -ENOMEM;
	}
	*end_of(c, 0) = start_ns;
	*ret = c;
	return 0;
}

struct window_clock *window_clock_free(struct window_clock *c)
{
	if (c) {
		free(c->end_ns);
		free(c);
	}
	return NULL;
}

size_t window_clock_count(const struct window_clock *c)
{
	return c->n_windows;
}

uint64_t window_clock_length_ns(const struct window_clock *c, size_t w)
{
	return c->length_ns[w];
}

uint64_t window_clock_span_ns(const struct window_clock *c, size_t w)
{
	uint64_t held = c->now < c->ticks[w] ? c->now : c->ticks[w];

	return *end_of(c, c->now) - *end_of(c, c->now - held);
}

void window_clock_tick(struct window_clock *c, uint64_t now_ns)
{
	uint64_t last_ns = *end_of(c, c->now);

	c->now++;
	*end_of(c, c->now) = now_ns > last_ns ? now_ns : last_ns;
}

size_t window_series_bytes(const struct window_clock *c)
{
	size_t bytes = sizeof(struct window_series) + c->n_windows * sizeof(uint64_t) + c->longest * sizeof(uint32_t);

	return (bytes + 7) & ~(size_t)7;
}

void window_series_reset(const struct window_clock *c, struct window_series *s)
{
	if (s->caught_up)
		memset(s, 0, window_series_bytes(c));
}

static const uint32_t *ring_of(const struct window_clock *c, const struct window_series *s)
{
	return (const uint32_t *)&s->sum[c->n_windows];
}

static void set_delta(const struct window_clock *c, struct window_series *s, uint64_t tick, uint32_t delta)
{
	((uint32_t *)&s->sum[c->n_windows])[tick % c->longest] = delta;
}

/* What window w held at tick `from` and no longer holds at tick `to`, read from a ring that is true up to `from`. */
static uint64_t sum_leaving(const struct window_clock *c, const struct window_series *s, size_t w, uint64_t from,
			    uint64_t to)
{
	uint64_t first = from > c->ticks[w] ? from - c->ticks[w] + 1 : 1;
	uint64_t end = to > c->ticks[w] ? to - c->ticks[w] + 1 : 1; /* the first tick still inside at `to` */
	uint64_t sum = 0;

	if (s->sum[w] == 0)
		return 0;
	for (uint64_t tick = first; tick < end && tick <= from; tick++)
		sum += ring_of(c, s)[tick % c->longest];
	return sum;
}

static void catch_up(const struct window_clock *c, struct window_series *s)
{
	if (s->caught_up == c->now)
		return;
	for (size_t w = 0; w < c->n_windows; w++)
		s->sum[w] -= sum_leaving(c, s, w, s->caught_up, c->now);
	/* The ticks in between, and the present one, have counted nothing so far. */
	for (uint64_t tick = c->now - s->caught_up > c->longest ? c->now - c->longest + 1 : s->caught_up + 1;
	     tick <= c->now; tick++)
		set_delta(c, s, tick, 0);
	s->caught_up = c->now;
}

void window_series_add(const struct window_clock *c, struct window_series *s, uint64_t delta)
{
	uint32_t kept = delta > UINT32_MAX ? UINT32_MAX : (uint32_t)delta;

	if (c->now == 0)
		return;
	catch_up(c, s);
	set_delta(c, s, c->now, kept);
	for (size_t w = 0; w < c->n_windows; w++)
		s->sum[w] += kept;
}

void window_series_merge(const struct window_clock *c, struct window_series *into, const struct window_series *from)
{
	uint32_t *ring = (uint32_t *)&into->sum[c->n_windows];
	uint64_t first = c->now > c->longest ? c->now - c->longest + 1 : 1;

	if (!from->caught_up)
		return;
	catch_up(c, into);
	for (size_t w = 0; w < c->n_windows; w++)
		into->sum[w] += window_series_sum(c, from, w);
	for (uint64_t tick = first; tick <= from->caught_up; tick++) {
		uint32_t *held = &ring[tick % c->longest];
		uint32_t more = ring_of(c, from)[tick % c->longest];

		*held = *held > UINT32_MAX - more ? UINT32_MAX : *held + more;
	}
}

uint64_t window_series_sum(const struct window_clock *c, const struct window_series *s, size_t w)
{
	return s->sum[w] - sum_leaving(c, s, w, s->caught_up, c->now);
}

double window_series_rate(const struct window_clock *c, const struct window_series *s, size_t w)
{
	uint64_t span_ns = window_clock_span_ns(c, w);

	return span_ns ? (double)window_series_sum(c, s, w) * 1e9 / (double)span_ns : 0;
}
