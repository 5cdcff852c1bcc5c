/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/cleanup.h"

struct node {
	struct node *next;
	struct queue_item item;
	uint8_t *data; /* what item.data shows, ours to free */
};

/* A singly linked list: batches come some times a minute, so nothing faster is needed. */
struct queue {
	struct node *oldest, *newest;
	size_t count;
	uint64_t bytes;
	uint64_t max_bytes;
	uint64_t last_id;
	bool held; /* the oldest is peeked: it may not give way */
};

int queue_new(uint64_t max_bytes, struct queue **ret)
{
	struct queue *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->max_bytes = max_bytes;
	*ret = q;
	return 0;
}

static void free_node(struct node *n)
{
	free(n->data);
	free(n);
}

struct queue *queue_free(struct queue *q)
{
	struct node *next;

	if (!q)
		return NULL;
	for (struct node *n = q->oldest; n; n = next) {
		next = n->next;
		free_node(n);
	}
	free(q);
	return NULL;
}

/* Takes the node behind `before` (NULL: the oldest) out of the list and frees it. */
static void remove_after(struct queue *q, struct node *before)
{
	struct node *n = before ? before->next : q->oldest;

	if (before)
		before->next = n->next;
	else
		q->oldest = n->next;
	if (q->newest == n)
		q->newest = before;
	q->count--;
	q->bytes -= n->item.size;
	free_node(n);
}

/* Drops the oldest that may go until no more than `bytes` remain or none may. Returns the data points lost. */
static size_t shrink(struct queue *q, uint64_t bytes)
{
	struct node *before = q->held ? q->oldest : NULL;
	size_t points = 0;

	while (q->bytes > bytes && (before ? before->next : q->oldest)) {
		points += (before ? before->next : q->oldest)->item.points;
		remove_after(q, before);
	}
	return points;
}

static uint64_t held_bytes(const struct queue *q)
{
	return q->held ? q->oldest->item.size : 0;
}

static void append(struct queue *q, struct node *n)
{
	if (q->newest)
		q->newest->next = n;
	else
		q->oldest = n;
	q->newest = n;
	q->count++;
	q->bytes += n->item.size;
}

int queue_push(struct queue *q, uint8_t *data, size_t size, size_t points, uint64_t now_ns, size_t *ret_dropped_points)
{
	auto_free uint8_t *owned = data;
	struct node *n;

	/* Whatever fails from here on loses this batch, and no other. */
	*ret_dropped_points = points;
	if (size > q->max_bytes)
		return -EFBIG;
	/* A reload may have set the bound below what is being sent. */
	if (held_bytes(q) > q->max_bytes || size > q->max_bytes - held_bytes(q))
		return -ENOSPC;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->data = take_ptr(owned);
	n->item = (struct queue_item){
	    .id = ++q->last_id, .data = n->data, .size = size, .points = points, .pushed_ns = now_ns};
	*ret_dropped_points = shrink(q, q->max_bytes - size);
	append(q, n);
	return 0;
}

int queue_peek(struct queue *q, struct queue_item *ret)
{
	if (!q->oldest)
		return -ENODATA;
	q->held = true;
	*ret = q->oldest->item;
	return 0;
}

static bool is_oldest(const struct queue *q, uint64_t id)
{
	return q->oldest && q->oldest->item.id == id;
}

int queue_ack(struct queue *q, uint64_t id)
{
	if (!is_oldest(q, id))
		return -ENOENT;
	remove_after(q, NULL);
	q->held = false;
	return 0;
}

void queue_release(struct queue *q, uint64_t id)
{
	/* If the bound was lowered meanwhile the batch goes with the next push, where its points are counted. */
	if (is_oldest(q, id))
		q->held = false;
}

size_t queue_count(const struct queue *q)
{
	return q->count;
}

uint64_t queue_bytes(const struct queue *q)
{
	return q->bytes;
}

uint64_t queue_max_bytes(const struct queue *q)
{
	return q->max_bytes;
}

void queue_set_max_bytes(struct queue *q, uint64_t max_bytes, size_t *ret_dropped_points)
{
	q->max_bytes = max_bytes;
	*ret_dropped_points = shrink(q, max_bytes);
}
