/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/cleanup.h"
#include "daemon/model/crash.h"

/* A ring of pointers. What is kept has consecutive numbers that end in `last`. */
struct crash_history {
	struct crash **ring; /* `max` of them */
	size_t max;
	size_t count;
	size_t oldest; /* index of the oldest */
	uint64_t last; /* number of the newest crash ever added; 0: none */
};

static struct crash **slot_of(const struct crash_history *h, size_t nth)
{
	return &h->ring[(h->oldest + nth) % h->max];
}

static void drop_oldest(struct crash_history *h)
{
	crash_free(*slot_of(h, 0));
	h->oldest = (h->oldest + 1) % h->max;
	h->count--;
}

static int new_ring(size_t max, struct crash ***ret)
{
	struct crash **ring = calloc(max ? max : 1, sizeof(struct crash *));

	if (!ring)
		return -ENOMEM;
	*ret = ring;
	return 0;
}

int crash_history_new(size_t max, struct crash_history **ret)
{
	struct crash_history *h = calloc(1, sizeof(*h));

	if (!h || new_ring(max, &h->ring) < 0) {
		crash_history_free(h);
		return -ENOMEM;
	}
	h->max = max;
	*ret = h;
	return 0;
}

struct crash_history *crash_history_free(struct crash_history *h)
{
	if (h) {
		while (h->count > 0)
			drop_oldest(h);
		free(h->ring);
		free(h);
	}
	return NULL;
}

uint64_t crash_history_add(struct crash_history *h, struct crash *c)
{
	c->number = ++h->last;
	if (h->max == 0) {
		crash_free(c);
		return h->last;
	}
	if (h->count == h->max)
		drop_oldest(h);
	*slot_of(h, h->count++) = c;
	return h->last;
}

const struct crash *crash_history_next(const struct crash_history *h, uint64_t after)
{
	uint64_t first = h->last - h->count + 1;

	if (after >= h->last || h->count == 0)
		return NULL;
	return *slot_of(h, after < first ? 0 : (size_t)(after + 1 - first));
}

size_t crash_history_count(const struct crash_history *h)
{
	return h->count;
}

int crash_history_resize(struct crash_history *h, size_t max)
{
	struct crash **ring;
	int r = new_ring(max, &ring);

	if (r < 0)
		return r;
	while (h->count > max)
		drop_oldest(h);
	for (size_t i = 0; i < h->count; i++)
		ring[i] = *slot_of(h, i);
	free(h->ring);
	h->ring = ring;
	h->max = max;
	h->oldest = 0;
	return 0;
}
