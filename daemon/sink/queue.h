/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches that wait for delivery, in memory, bounded by bytes: push at one end, peek and ack at the other. The seam for
 * a durable spool: the verbs are the same, and a batch is only its encoded bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue_item {
	uint64_t id; /* grows by one each push */
	const uint8_t *data;
	size_t size;
	size_t points;
	uint64_t pushed_ns; /* monotonic, as given */
};

int queue_new(uint64_t max_bytes, struct queue **ret);
struct queue *queue_free(struct queue *q);
/* Takes over `data` (malloc'd), always. When full the oldest batches give way; *ret_dropped_points counts their data
 * points (and this batch's if it alone is larger than the bound: -EFBIG). An item that is being sent (peeked) is never
 * dropped before its ack: if nothing else can give way the new batch is dropped, -ENOSPC. -ENOMEM. */
int queue_push(struct queue *q, uint8_t *data, size_t size, size_t points, uint64_t now_ns, size_t *ret_dropped_points);
/* The oldest batch, borrowed until its ack. -ENODATA if empty. */
int queue_peek(struct queue *q, struct queue_item *ret);
/* Done with the peeked batch `id`. -ENOENT if it is not the oldest. */
int queue_ack(struct queue *q, uint64_t id);
/* Puts a peeked batch's place free for dropping again (delivery is to be retried later). */
void queue_release(struct queue *q, uint64_t id);
size_t queue_count(const struct queue *q);
uint64_t queue_bytes(const struct queue *q);
uint64_t queue_max_bytes(const struct queue *q);
/* A smaller bound drops the oldest at once, counted in *ret_dropped_points. */
void queue_set_max_bytes(struct queue *q, uint64_t max_bytes, size_t *ret_dropped_points);
