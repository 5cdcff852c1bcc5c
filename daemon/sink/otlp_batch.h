/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings data points together to requests of bounded size. Part of otlp.c; the pieces come packed (otlp_pack.h), here
 * they are only bytes: a request is the head of its resource, the head of its scope, then metrics; a metric is its
 * head, then its points. The size of all that is known before it is written, so a batch is closed before it grows too
 * large.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/strbuf.h"
#include "daemon/sink/otlp.h"

/* Bytes that stay where they are for the length of a call. */
struct otlp_span {
	const void *data;
	size_t len;
};

#define OTLP_METRICS_MAX 16 /* in one batch; one more begins a new batch */

/* Zeroed but for max_bytes and the field number is ready for use. */
struct otlp_writer {
	size_t max_bytes;
	size_t dropped; /* points that no request has room for */
	int error;      /* 0, or -ENOMEM: later calls do nothing */

	struct strbuf resource; /* every ResourceMetrics begins so; filled by the caller first */
	struct strbuf scope;    /* every ScopeMetrics begins so; filled by the caller first */

	/* The open metric: filled by the caller between otlp_writer_close_metric() and the first point. */
	struct strbuf metric_head; /* its name and so on */
	struct strbuf data_tail;   /* what follows the points inside its Sum or Gauge */
	uint32_t data_field;       /* number of the Sum or the Gauge in a Metric */

	/* Private. */
	struct strbuf points; /* of the batch under construction, metric after metric */
	struct strbuf heads;  /* of its metrics but the open one: metric_head and data_tail of each in turn */
	struct otlp_part {
		size_t head_len, tail_len, points_len;
		uint32_t data_field;
	} closed[OTLP_METRICS_MAX];
	size_t n_closed;
	size_t closed_points_len; /* where the open metric's points begin in `points` */
	size_t closed_size;       /* of the closed metrics as they will be written */
	size_t points_in_batch;
	struct otlp_batch *batches;
	size_t n_batches;
};

/* Takes note of a failed buffer. True if all is well so far. */
bool otlp_writer_ok(struct otlp_writer *w, const struct strbuf *b);
/* Adds a data point that is made of these parts. Begins a new batch when this one has no room. */
void otlp_writer_add_point(struct otlp_writer *w, const struct otlp_span *parts, size_t n);
/* Ends the open metric, if any, and empties metric_head and data_tail. */
void otlp_writer_close_metric(struct otlp_writer *w);
/* Ends all and hands the batches over, which the caller frees with otlp_batches_free(). Returns w->error. */
int otlp_writer_finish(struct otlp_writer *w, struct otlp_batch **ret, size_t *ret_n);
void otlp_writer_done(struct otlp_writer *w);
