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
	uint64_t bytes;
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
	l->bytes -= n->item.size;
	free_node(n);
}

static uint64_t held_bytes(const struct line *l)
{
	return l->held ? l->oldest->item.size : 0;
}

/* Bytes that batches of a kind may take. */
static uint64_t share(const struct queue *q, enum queue_kind kind)
{
	return kind == QUEUE_LOGS ? q->max_bytes / 2 : q->max_bytes;
}

/* Drops the oldest of a kind while `*bytes`, the line's or the queue's, are more than `most` and any may go. */
static void shrink_line(struct queue *q, enum queue_kind kind, const uint64_t *bytes, uint64_t most,
			struct queue_dropped *dropped)
{
	struct line *l = &q->lines[kind];
	struct node *n;

	while (*bytes > most && (n = loose(l))) {
		dropped->points[kind] += n->item.points;
		remove_after(q, l, l->held ? l->oldest : NULL);
	}
}

/* Makes room for `size` more bytes of a kind: within its share, then within the bound. */
static void make_room(struct queue *q, enum queue_kind kind, uint64_t size, struct queue_dropped *dropped)
{
	uint64_t within = share(q, kind);

	shrink_line(q, kind, &q->lines[kind].bytes, within > size ? within - size : 0, dropped);
	for (size_t at = 0; at < QUEUE_KINDS; at++)
		shrink_line(q, at, &q->bytes, q->max_bytes > size ? q->max_bytes - size : 0, dropped);
}

/* Whether make_room() would succeed without touching what does not give way to this kind: the kinds after it. */
static bool has_room(const struct queue *q, enum queue_kind kind, uint64_t size)
{
	uint64_t firm = 0;

	for (size_t at = 0; at < QUEUE_KINDS; at++)
		firm += at <= kind ? held_bytes(&q->lines[at]) : q->lines[at].bytes;
	/* A reload may have set the bound below what is being sent. */
	return size + firm <= q->max_bytes && size + held_bytes(&q->lines[kind]) <= share(q, kind);
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
	l->bytes += n->item.size;
}

int queue_push(struct queue *q, enum queue_kind kind, uint8_t *data, size_t size, size_t points, uint64_t now_ns,
	       struct queue_dropped *ret_dropped)
{
	auto_free uint8_t *owned = data;
	struct node *n;

	/* Whatever fails from here on loses this batch, and no other. */
	*ret_dropped = (struct queue_dropped){0};
	ret_dropped->points[kind] = points;
	if (size > share(q, kind))
		return -EFBIG;
	if (!has_room(q, kind, size))
		return -ENOSPC;
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->data = take_ptr(owned);
	n->item = (struct queue_item){
	    .id = ++q->last_id, .kind = kind, .data = n->data, .size = size, .points = points, .pushed_ns = now_ns};
	ret_dropped->points[kind] = 0;
	make_room(q, kind, size, ret_dropped);
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
	make_room(q, QUEUE_LOGS, 0, ret_dropped);
}
