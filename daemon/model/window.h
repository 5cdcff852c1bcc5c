/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sliding rates. Time is cut into ticks that all series share; each series keeps its count per tick for as long
 * as the longest window and one running sum per window. A rate is the sum of a window's ticks over the time that those
 * ticks really took, so that late ticks, a suspended host or a daemon younger than the window distort nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WINDOWS_MAX 8

/* The common clockwork of all series: when the last ticks were. */
struct window_clock;

/* `windows_ns` ascending, 1 to WINDOWS_MAX of them, each >= interval_ns. A window holds round(window / interval) ticks.
 * `start_ns` is when counting began. -EINVAL, -ENOMEM. */
int window_clock_new(uint64_t interval_ns, const uint64_t *windows_ns, size_t n, uint64_t start_ns,
		     struct window_clock **ret);
struct window_clock *window_clock_free(struct window_clock *c);
size_t window_clock_count(const struct window_clock *c);
/* The configured length of window `w`. */
uint64_t window_clock_length_ns(const struct window_clock *c, size_t w);
/* The time that window `w` covers now; 0 before the first tick. Never more than its ticks really took. */
uint64_t window_clock_span_ns(const struct window_clock *c, size_t w);
/* Begins the next tick: what series add from now on belongs to it. `now_ns` is monotonic; going back is taken as no
 * time. */
void window_clock_tick(struct window_clock *c, uint64_t now_ns);

/* One series, embedded; its memory is window_series_bytes() large and aligned for uint64_t, zeroed when new. */
struct window_series;
size_t window_series_bytes(const struct window_clock *c);
/* Makes it new again; writes nothing to one that is. */
void window_series_reset(const struct window_clock *c, struct window_series *s);
/* Adds the count of the current tick. Call at most once per tick; ticks without a call count 0. Values above 2^32-1 are
 * kept as 2^32-1 (the interval is at most 10 s, no host faults that fast). */
void window_series_add(const struct window_clock *c, struct window_series *s, uint64_t delta);
/* Adds to `into` what `from` holds, tick by tick: both of this clock. */
void window_series_merge(const struct window_clock *c, struct window_series *into, const struct window_series *from);
/* Counts in window `w`. */
uint64_t window_series_sum(const struct window_clock *c, const struct window_series *s, size_t w);
/* Per second; 0 before the first tick. */
double window_series_rate(const struct window_clock *c, const struct window_series *s, size_t w);
