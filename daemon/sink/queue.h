/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches that wait for delivery, in memory, bounded by bytes: push at one end, peek and ack at the other. The seam for
 * a durable spool: the verbs are the same, and a batch is only its encoded bytes.
 *
 * Each kind of batch has an order of its own, and all share the bound. When it is reached the oldest metrics give way
 * first: totals are cumulative, so the next batch tells them again. Only when there are none left do the oldest logs go,
 * and never for metrics: what they say is said once. But logs take half of the bound at most, so that a receiver that
 * takes none of them for days leaves room for metrics; beyond that the oldest logs go.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct queue;

enum queue_kind { QUEUE_METRICS, QUEUE_LOGS, QUEUE_KINDS };

struct queue_item {
	uint64_t id; /* grows by one each push */
	enum queue_kind kind;
	const uint8_t *data;
	size_t size;
	size_t points;      /* data points, or log records, inside */
	uint64_t pushed_ns; /* monotonic, as given */
};

/* What gave way, by kind: data points and log records. */
struct queue_dropped {
	size_t points[QUEUE_KINDS];
};

int queue_new(uint64_t max_bytes, struct queue **ret);
struct queue *queue_free(struct queue *q);
/* Takes over `data` (malloc'd), always. *ret_dropped tells what gave way to it; if the push fails, this batch and no
 * other. An item that is being sent (peeked) is never dropped before its ack. -EFBIG: larger than the bound of
 * its kind; -ENOSPC: nothing that may give way would make room; -ENOMEM. */
int queue_push(struct queue *q, enum queue_kind kind, uint8_t *data, size_t size, size_t points, uint64_t now_ns,
	       struct queue_dropped *ret_dropped);
/* The oldest batch of a kind, borrowed until its ack. -ENODATA if there is none. */
int queue_peek(struct queue *q, enum queue_kind kind, struct queue_item *ret);
/* Done with the peeked batch `id`. -ENOENT if it is not the oldest of its kind. */
int queue_ack(struct queue *q, uint64_t id);
/* Puts a peeked batch's place free for dropping again (delivery is to be retried later). */
void queue_release(struct queue *q, uint64_t id);
/* Batches and bytes of all kinds. */
size_t queue_count(const struct queue *q);
uint64_t queue_bytes(const struct queue *q);
uint64_t queue_max_bytes(const struct queue *q);
/* A smaller bound drops at once, told in *ret_dropped. */
void queue_set_max_bytes(struct queue *q, uint64_t max_bytes, struct queue_dropped *ret_dropped);
