/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/otlp_batch.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/cleanup.h"
#include "daemon/sink/otlp_wire.h"

/* Numbers, as in otlp.proto, of the lists that are strung together here. */
enum {
	FIELD_EXPORT_RESOURCE_METRICS = 1,
	FIELD_RESOURCE_METRICS_SCOPE_METRICS = 2,
	FIELD_SCOPE_METRICS_METRICS = 2,
	FIELD_DATA_POINTS = 1, /* of Sum and of Gauge */
};

/* ---- sizes, from the inside out ---- */

static size_t metric_size(size_t head, size_t points, size_t tail)
{
	return head + otlp_field_size(points + tail);
}

static size_t scope_metrics_size(const struct otlp_writer *w, size_t metrics)
{
	return w->scope.len + metrics;
}

static size_t resource_metrics_size(const struct otlp_writer *w, size_t metrics)
{
	return w->resource.len + otlp_field_size(scope_metrics_size(w, metrics));
}

static size_t open_metric_size(const struct otlp_writer *w, size_t more)
{
	return metric_size(w->metric_head.len, w->points.len - w->closed_points_len + more, w->data_tail.len);
}

/* Of the whole request, once `more` bytes of points were added to the open metric. */
static size_t request_size(const struct otlp_writer *w, size_t more)
{
	return otlp_field_size(resource_metrics_size(w, w->closed_size + otlp_field_size(open_metric_size(w, more))));
}

/* ---- writing ---- */

static uint8_t *put_metrics(const struct otlp_writer *w, uint8_t *at)
{
	const char *heads = w->heads.data, *points = w->points.data;

	for (const struct otlp_part *p = w->closed; p < w->closed + w->n_closed; p++) {
		at = otlp_put_field_head(at, FIELD_SCOPE_METRICS_METRICS,
					 metric_size(p->head_len, p->points_len, p->tail_len));
		at = otlp_put_bytes(at, heads, p->head_len);
		at = otlp_put_field_head(at, p->data_field, p->points_len + p->tail_len);
		at = otlp_put_bytes(at, points, p->points_len);
		at = otlp_put_bytes(at, heads + p->head_len, p->tail_len);
		heads += p->head_len + p->tail_len;
		points += p->points_len;
	}
	return at;
}

static int write_request(const struct otlp_writer *w, struct otlp_batch *ret)
{
	size_t inner = resource_metrics_size(w, w->closed_size), size = otlp_field_size(inner);
	uint8_t *data = malloc(size), *at = data;

	if (!data)
		return -ENOMEM;
	at = otlp_put_field_head(at, FIELD_EXPORT_RESOURCE_METRICS, inner);
	at = otlp_put_bytes(at, w->resource.data, w->resource.len);
	at = otlp_put_field_head(at, FIELD_RESOURCE_METRICS_SCOPE_METRICS, scope_metrics_size(w, w->closed_size));
	at = otlp_put_bytes(at, w->scope.data, w->scope.len);
	put_metrics(w, at);
	*ret = (struct otlp_batch){.data = data, .size = size, .points = w->points_in_batch};
	return 0;
}

/* ---- batches ---- */

bool otlp_writer_ok(struct otlp_writer *w, const struct strbuf *b)
{
	if (!w->error)
		w->error = strbuf_error(b);
	return !w->error;
}

/* The points so far become a metric of the batch; the metric stays open for points of the next batch. */
static void end_points(struct otlp_writer *w)
{
	struct otlp_part part = {.head_len = w->metric_head.len,
				 .tail_len = w->data_tail.len,
				 .points_len = w->points.len - w->closed_points_len,
				 .data_field = w->data_field};

	if (!part.points_len)
		return;
	strbuf_add(&w->heads, w->metric_head.data, w->metric_head.len);
	strbuf_add(&w->heads, w->data_tail.data, w->data_tail.len);
	w->closed_size += otlp_field_size(open_metric_size(w, 0));
	w->closed_points_len = w->points.len;
	w->closed[w->n_closed++] = part;
}

static void end_batch(struct otlp_writer *w)
{
	struct otlp_batch *batches;

	end_points(w);
	if (!otlp_writer_ok(w, &w->points) || !otlp_writer_ok(w, &w->metric_head) ||
	    !otlp_writer_ok(w, &w->data_tail) || !otlp_writer_ok(w, &w->heads) || !w->points_in_batch)
		return;
	batches = reallocarray(w->batches, w->n_batches + 1, sizeof(*batches));
	if (!batches) {
		w->error = -ENOMEM;
		return;
	}
	w->batches = batches;
	w->error = write_request(w, &batches[w->n_batches]);
	if (w->error)
		return;
	w->n_batches++;
	w->points_in_batch = w->n_closed = w->closed_points_len = w->closed_size = 0;
	strbuf_reset(&w->points);
	strbuf_reset(&w->heads);
}

void otlp_writer_add_point(struct otlp_writer *w, const struct otlp_span *parts, size_t n)
{
	size_t len = 0;

	if (w->error)
		return;
	for (size_t at = 0; at < n; at++)
		len += parts[at].len;
	if (request_size(w, otlp_field_size(len)) > w->max_bytes || w->n_closed == OTLP_METRICS_MAX)
		end_batch(w);
	if (request_size(w, otlp_field_size(len)) > w->max_bytes) {
		w->dropped++;
		return;
	}
	otlp_add_field_head(&w->points, FIELD_DATA_POINTS, len);
	for (size_t at = 0; at < n; at++)
		strbuf_add(&w->points, parts[at].data, parts[at].len);
	w->points_in_batch++;
}

void otlp_writer_close_metric(struct otlp_writer *w)
{
	if (!otlp_writer_ok(w, &w->points) || !otlp_writer_ok(w, &w->metric_head) || !otlp_writer_ok(w, &w->data_tail))
		return;
	end_points(w);
	strbuf_reset(&w->metric_head);
	strbuf_reset(&w->data_tail);
}

int otlp_writer_finish(struct otlp_writer *w, struct otlp_batch **ret, size_t *ret_n)
{
	end_batch(w);
	if (w->error)
		return w->error;
	*ret = take_ptr(w->batches);
	*ret_n = w->n_batches;
	w->n_batches = 0;
	return 0;
}

void otlp_writer_done(struct otlp_writer *w)
{
	strbuf_done(&w->resource);
	strbuf_done(&w->scope);
	strbuf_done(&w->metric_head);
	strbuf_done(&w->data_tail);
	strbuf_done(&w->points);
	strbuf_done(&w->heads);
	otlp_batches_free(w->batches, w->n_batches);
	w->batches = NULL;
	w->n_batches = 0;
}

void otlp_batches_free(struct otlp_batch *batches, size_t n)
{
	for (size_t at = 0; batches && at < n; at++)
		free(batches[at].data);
	free(batches);
}
