/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/table.h"
#include "daemon/model/crash.h"

/* Credit is counted in 1/RECORD of a record, so that a nanosecond refills `per_minute` of it: exact at any rate. */
#define RECORD (60 * NSEC_PER_SEC)
/* Keeps the largest credit within 63 bits. */
#define PER_MINUTE_MAX 100000000u

struct bucket {
	struct bucket *newer, *older;
	uint64_t cgroup_id;
	uint64_t credit;
	uint64_t at_ns; /* when credit was what it is */
	uint64_t suppressed;
};

struct crash_limit {
	struct table *by_cgroup;
	struct bucket *buckets; /* all there can be */
	size_t n_used;
	struct bucket *newest, *oldest; /* by use */
};

int crash_limit_new(size_t max_cgroups, struct crash_limit **ret)
{
	struct crash_limit *l = calloc(1, sizeof(*l));
	size_t n = max_cgroups ? max_cgroups : 1;

	if (l)
		l->buckets = calloc(n, sizeof(*l->buckets));
	if (!l || !l->buckets || table_new(n, &l->by_cgroup) < 0) {
		crash_limit_free(l);
		return -ENOMEM;
	}
	*ret = l;
	return 0;
}

struct crash_limit *crash_limit_free(struct crash_limit *l)
{
	if (l) {
		table_free(l->by_cgroup);
		free(l->buckets);
		free(l);
	}
	return NULL;
}

static void unlink_bucket(struct crash_limit *l, struct bucket *b)
{
	*(b->newer ? &b->newer->older : &l->newest) = b->older;
	*(b->older ? &b->older->newer : &l->oldest) = b->newer;
}

static void push_newest(struct crash_limit *l, struct bucket *b)
{
	b->newer = NULL;
	b->older = l->newest;
	*(l->newest ? &l->newest->newer : &l->oldest) = b;
	l->newest = b;
}

/* A bucket that nobody uses: a fresh one, else that of the cgroup that was used least recently. */
static struct bucket *claim(struct crash_limit *l)
{
	struct bucket *b = l->oldest;

	if (l->n_used < table_capacity(l->by_cgroup))
		return &l->buckets[l->n_used++];
	unlink_bucket(l, b);
	(void)table_remove(l->by_cgroup, b->cgroup_id);
	return b;
}

static struct bucket *find_bucket(struct crash_limit *l, uint64_t cgroup_id, uint64_t full, uint64_t now_ns)
{
	struct bucket *b = table_get(l->by_cgroup, cgroup_id);

	if (b) {
		unlink_bucket(l, b);
	} else {
		b = claim(l);
		*b = (struct bucket){.cgroup_id = cgroup_id, .credit = full, .at_ns = now_ns};
		(void)table_put(l->by_cgroup, cgroup_id, b); /* claim() made room */
	}
	push_newest(l, b);
	return b;
}

static void refill(struct bucket *b, uint64_t per_minute, uint64_t full, uint64_t now_ns)
{
	uint64_t elapsed = now_ns > b->at_ns ? now_ns - b->at_ns : 0;

	/* After a minute it is full, whatever it was. */
	b->credit += (elapsed < RECORD ? elapsed : RECORD) * per_minute;
	if (b->credit > full)
		b->credit = full;
	if (now_ns > b->at_ns)
		b->at_ns = now_ns;
}

bool crash_limit_pass(struct crash_limit *l, uint64_t cgroup_id, uint32_t per_minute, uint64_t now_ns,
		      uint64_t *ret_suppressed)
{
	uint64_t rate = per_minute < PER_MINUTE_MAX ? per_minute : PER_MINUTE_MAX, full = rate * RECORD;
	struct bucket *b = find_bucket(l, cgroup_id, full, now_ns);

	refill(b, rate, full, now_ns);
	if (b->credit < RECORD) {
		b->suppressed++;
		return false;
	}
	b->credit -= RECORD;
	*ret_suppressed = b->suppressed;
	b->suppressed = 0;
	return true;
}
