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

/* The batches of one kind. A singly linked list: batches come some times a minute, so nothing faster is needed. */
struct line {
	struct node *oldest, *newest;
	bool held; /* the oldest is peeked: it may not give way */
};

struct queue {
	struct line lines[QUEUE_KINDS]; /* in the order in which they give way */
	size_t count;
	uint64_t bytes;
	uint64_t max_bytes;
	uint64_t last_id;
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

static void free_line(struct line *l)
{
	struct node *next;

	for (struct node *n = l->oldest; n; n = next) {
		next = n->next;
		free_node(n);
	}
}

struct queue *queue_free(struct queue *q)
{
	if (!q)
		return NULL;
	for (size_t kind = 0; kind < QUEUE_KINDS; kind++)
		free_line(&q->lines[kind]);
	free(q);
	return NULL;
}

/* ---- giving way ---- */

/* The oldest that may go. */
static struct node *loose(const struct line *l)
{
	return l->held ? l->oldest->next : l->oldest;
}

/* Takes the node behind `before` (NULL: the oldest) out of the line and frees it. */
static void remove_after(struct queue *q, struct line *l, struct node *before)
{
	struct node *n = before ? before->next : l->oldest;

	if (before)
		before->next = n->next;
	else
		l->oldest = n->next;
	if (l->newest == n)
		l->newest = before;
	q->count--;
	q->bytes -= n->item.size;
	free_node(n);
}

/* Drops the oldest, kind after kind, until no more than `bytes` remain or none may go. */
static void shrink(struct queue *q, uint64_t bytes, struct queue_dropped *dropped)
{
	for (size_t kind = 0; kind < QUEUE_KINDS; kind++) {
		struct line *l = &q->lines[kind];
		struct node *n;

		while (q->bytes > bytes && (n = loose(l))) {
			dropped->points[kind] += n->item.points;
			remove_after(q, l, l->held ? l->oldest : NULL);
		}
	}
}

/* Bytes that would remain if all that may go for a batch of this kind went: its own kind and those before it. */
static uint64_t firm_bytes(const struct queue *q, enum queue_kind kind)
{
	uint64_t bytes = q->bytes;

	for (size_t at = 0; at <= kind; at++)
		for (const struct node *n = loose(&q->lines[at]); n; n = n->next)
			bytes -= n->item.size;
	return bytes;
}

/* ---- verbs ---- */

static void append(struct queue *q, struct node *n)
{
	struct line *l = &q->lines[n->item.kind];

	if (l->newest)
		l->newest->next = n;
	else
		l->oldest = n;
	l->newest = n;
	q->count++;
	q->bytes += n->item.size;
}

int queue_push(struct queue *q, enum queue_kind kind, uint8_t *data, size_t size, size_t points, uint64_t now_ns,
	       struct queue_dropped *ret_dropped)
{
	uint64_t firm = firm_bytes(q, kind);
	auto_free uint8_t *owned = data;
	struct node *n;

	/* Whatever fails from here on loses this batch, and no other. */
	*ret_dropped = (struct queue_dropped){0};
	ret_dropped->points[kind] = points;
	if (size > q->max_bytes)
		return -EFBIG;
	/* A reload may have set the bound below what is being sent. */
	if (firm > q->max_bytes || size > q->max_bytes - firm)
		return -ENOSPC;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->data = take_ptr(owned);
	n->item = (struct queue_item){
	    .id = ++q->last_id, .kind = kind, .data = n->data, .size = size, .points = points, .pushed_ns = now_ns};
	ret_dropped->points[kind] = 0;
	shrink(q, q->max_bytes - size, ret_dropped);
	append(q, n);
	return 0;
}

int queue_peek(struct queue *q, enum queue_kind kind, struct queue_item *ret)
{
	struct line *l = &q->lines[kind];

	if (!l->oldest)
		return -ENODATA;
	l->held = true;
	*ret = l->oldest->item;
	return 0;
}

/* The line whose oldest is batch `id`; NULL if none. */
static struct line *find(struct queue *q, uint64_t id)
{
	for (struct line *l = q->lines; l < q->lines + QUEUE_KINDS; l++)
		if (l->oldest && l->oldest->item.id == id)
			return l;
	return NULL;
}

int queue_ack(struct queue *q, uint64_t id)
{
	struct line *l = find(q, id);

	if (!l)
		return -ENOENT;
	remove_after(q, l, NULL);
	l->held = false;
	return 0;
}

void queue_release(struct queue *q, uint64_t id)
{
	struct line *l = find(q, id);

	/* If the bound was lowered meanwhile the batch goes with the next push, where its points are counted. */
	if (l)
		l->held = false;
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

void queue_set_max_bytes(struct queue *q, uint64_t max_bytes, struct queue_dropped *ret_dropped)
{
	q->max_bytes = max_bytes;
	*ret_dropped = (struct queue_dropped){0};
	shrink(q, max_bytes, ret_dropped);
}
