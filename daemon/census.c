/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/census.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/source/cgroup.h"
#include "daemon/source/memcg.h"
#include "daemon/source/probe.h"

/* Bounds on what one turn of the loop does. */
#define LIFE_RECORDS_PER_TURN 512
/* Before counts are read all records so far are heard: the ring holds fewer than this. */
#define LIFE_RECORDS_MAX 8192
#define LIVENESS_CHECKS_PER_TICK 8
#define DEAD_PER_TICK 4096
#define MEMCG_READS_PER_TICK 20
/* Names are kept for at least so many cgroups, however few have series: short-lived ones are named after their death. */
#define NAMES_MIN 4096
/* With memory.stat as the only source a round over all cgroups shall be done in this many ticks. */
#define MEMCG_TICKS_PER_ROUND 5
/* At least this long between two rounds of taking slots back. */
#define TURNOVER_NS (100 * NSEC_PER_MSEC)
/* How often folded cgroups may get another chance. */
#define UNFOLD_NS (10 * NSEC_PER_SEC)
/* Share of the limit at which a warning is due, and below which it may come again; in percent. */
#define FULL_WARN 80
#define FULL_CALM 70

struct census {
	struct ladder *ladder;
	struct aggregate *aggregate;
	struct self_stats *self;
	struct filter *filter;
	struct cgroup_names *names; /* NULL: no hierarchy to look in */
	uint64_t now_ns;            /* of the running call */

	uint64_t died[DEAD_PER_TICK]; /* announced deaths that wait for the next turnover */
	size_t n_died;
	size_t n_collected; /* of these, heard before the last collection began: only their counts are all collected */

	uint64_t *round; /* ids that are checked for life, a few per tick */
	size_t n_round, round_at, round_capacity;
	bool check_all; /* death records were lost, or there are none: check all ids at the next tick */
	uint64_t drops_seen;

	bool some_over_limit; /* somebody was folded for want of room */
	bool unfold_due;
	uint64_t last_unfold_ns;
	bool warned_full;
	uint64_t last_turnover_ns;
};

int census_new(const struct config *config, struct ladder *ladder, struct aggregate *aggregate, struct self_stats *self,
	       struct census **ret)
{
	struct census *c = calloc(1, sizeof(*c));
	size_t capacity = (size_t)config->cgroups.max * FAULT_HASH_FACTOR;
	int r;

	if (!c)
		return -ENOMEM;
	if (capacity < NAMES_MIN)
		capacity = NAMES_MIN;
	c->ladder = ladder;
	c->aggregate = aggregate;
	c->self = self;
	c->round_capacity = aggregate_max_ids(aggregate);
	c->round = calloc(c->round_capacity, sizeof(*c->round));
	r = c->round ? 0 : -ENOMEM;
	if (r == 0)
		r = filter_new(config->cgroups.include.items, config->cgroups.include.count,
			       config->cgroups.exclude.items, config->cgroups.exclude.count, &c->filter);
	if (r < 0) {
		census_free(c);
		return r;
	}
	r = ladder->hierarchy.mount ? cgroup_names_new(ladder->hierarchy.mount, capacity, &c->names) : -ENOENT;
	if (r < 0)
		log_warning_errno(r, "no cgroup hierarchy can be read (%s), ignoring: faults count as %s", strerror(-r),
				  IDENTITY_UNKNOWN);
	*ret = c;
	return 0;
}

struct census *census_free(struct census *c)
{
	if (c) {
		cgroup_names_free(c->names);
		filter_free(c->filter);
		free(c->round);
		free(c);
	}
	return NULL;
}

/* ---- births and names ---- */

static int hear(struct census *c, unsigned max);

static int find_path(struct census *c, uint64_t id, char **ret)
{
	int r = c->names ? cgroup_names_find(c->names, id, c->now_ns, ret) : -ENOENT;

	/* Born since the records were last heard, and maybe gone already. */
	if (r == -ENOENT && c->names && hear(c, LIFE_RECORDS_MAX) > 0)
		r = cgroup_names_find(c->names, id, c->now_ns, ret);
	return r;
}

/* The identity that an id shall be counted under; *ret NULL: as other. */
static int identify(struct census *c, uint64_t id, const char *known_path, struct identity **ret)
{
	auto_free char *found = NULL;
	int r = known_path ? 0 : find_path(c, id, &found);
	const char *path = known_path ? known_path : found;

	if (r == -ENOENT)
		return identity_pseudo(IDENTITY_UNKNOWN, ret);
	if (r < 0)
		return r;
	if (!filter_pass(c->filter, path)) {
		*ret = NULL;
		return 0;
	}
	return identity_parse(path, strlen(path), ret);
}

static void fold_in_kernel(struct census *c, uint64_t id)
{
	int r = c->ladder->probe ? probe_fold(c->ladder->probe, id) : 0;

	if (r < 0)
		log_debug("cannot fold cgroup %llu in the kernel: %s", (unsigned long long)id, strerror(-r));
}

/* First sight of an id. Whatever fails here, its faults count: ids without a binding count as other. */
static void admit(struct census *c, uint64_t id, const char *known_path)
{
	struct identity *identity = NULL;
	bool over_limit = false, folded;
	int r = identify(c, id, known_path, &identity);

	if (r < 0)
		return;
	folded = !identity;
	r = aggregate_bind(c->aggregate, id, take_ptr(identity), &over_limit);
	if (r < 0 || over_limit) {
		c->self->drop_cgroup_limit++;
		c->some_over_limit = true;
	}
	if (r == 0 && (over_limit || folded))
		fold_in_kernel(c, id);
}

/* An id that had no name when it was first seen may have one now. */
static void try_name_again(struct census *c, uint64_t id)
{
	const struct identity *identity = aggregate_identity(c->aggregate, id);
	auto_free char *path = NULL;

	if (!identity || strcmp(identity->label, IDENTITY_UNKNOWN) != 0 || find_path(c, id, &path) < 0)
		return;
	aggregate_unbind(c->aggregate, id, c->now_ns);
	admit(c, id, path);
}

static void on_growth(uint64_t id, const struct growth *growth, void *userdata)
{
	struct census *c = userdata;

	if (!aggregate_knows(c->aggregate, id))
		admit(c, id, NULL);
	else
		try_name_again(c, id);
	if (growth->faults)
		aggregate_faults(c->aggregate, id, growth->faults);
	if (growth->bad)
		aggregate_bad(c->aggregate, id, growth->bad);
	if (growth->latencies)
		aggregate_latencies(c->aggregate, id, growth->latencies);
}

static void on_born(uint64_t id, const char *path, size_t len, bool cut, void *userdata)
{
	struct census *c = userdata;

	if (c->names)
		cgroup_names_born(c->names, id, path, len, cut);
}

static void name_anew(uint64_t id, void *userdata)
{
	struct census *c = userdata;

	if (!aggregate_knows(c->aggregate, id))
		return;
	/* The new name may pass the filter. */
	if (c->ladder->probe && !aggregate_identity(c->aggregate, id))
		(void)probe_unfold(c->ladder->probe, id);
	aggregate_unbind(c->aggregate, id, c->now_ns);
}

/* Only v1 cgroups can be renamed: the counts go on under the new name. */
static void on_renamed(uint64_t id, const char *path, size_t len, bool cut, void *userdata)
{
	struct census *c = userdata;

	if (c->names)
		cgroup_names_renamed(c->names, id, path, len, cut, name_anew, c);
	name_anew(id, c);
}

bool census_wants(struct census *c, uint64_t id, uint64_t now_ns)
{
	auto_free char *path = NULL;

	c->now_ns = now_ns;
	return find_path(c, id, &path) < 0 || filter_pass(c->filter, path);
}

int census_identify(struct census *c, uint64_t id, uint64_t now_ns, struct identity **ret)
{
	auto_free char *path = NULL;

	c->now_ns = now_ns;
	if (find_path(c, id, &path) < 0)
		return identity_pseudo(IDENTITY_UNKNOWN, ret);
	return identity_parse(path, strlen(path), ret);
}

/* ---- deaths ---- */

static void forget(struct census *c, uint64_t id)
{
	aggregate_unbind(c->aggregate, id, c->now_ns);
	if (c->names)
		cgroup_names_forget(c->names, id);
	c->unfold_due |= c->some_over_limit;
}

static void on_drained(uint64_t id, void *userdata)
{
	struct census *c = userdata;

	/* Folded cgroups live on, bound to other; so does one whose fate cannot be told now. */
	if (!c->names || cgroup_names_alive(c->names, id) == 0)
		forget(c, id);
}

/* The counts up to now were collected; a slot's last ones come with its draining. */
static void bury(struct census *c, uint64_t id)
{
	int r = c->ladder->probe ? probe_release(c->ladder->probe, id) : 0;

	if (r <= 0)
		forget(c, id);
}

static void bury_announced(struct census *c)
{
	for (size_t i = 0; i < c->n_collected; i++)
		bury(c, c->died[i]);
	c->n_died -= c->n_collected;
	memmove(c->died, c->died + c->n_collected, c->n_died * sizeof(c->died[0]));
	c->n_collected = 0;
}

static void on_died(uint64_t id, void *userdata)
{
	struct census *c = userdata;

	if (c->names)
		cgroup_names_died(c->names, id);
	if (c->n_died < DEAD_PER_TICK)
		c->died[c->n_died++] = id;
	else
		c->check_all = true;
}

static void add_to_round(uint64_t id, bool folded, void *userdata)
{
	struct census *c = userdata;

	if (c->n_round < c->round_capacity)
		c->round[c->n_round++] = id;
}

/* Deaths are announced by the kernel; this finds those whose record was lost, and all of them where there are no
 * records. */
static void check_liveness(struct census *c)
{
	size_t checks = c->check_all ? SIZE_MAX : LIVENESS_CHECKS_PER_TICK;

	if (!c->names)
		return;
	if (c->check_all || c->round_at >= c->n_round) {
		c->n_round = c->round_at = 0;
		aggregate_visit(c->aggregate, add_to_round, c);
	}
	c->check_all = false;
	for (; checks > 0 && c->round_at < c->n_round; checks--) {
		uint64_t id = c->round[c->round_at++];

		if (aggregate_knows(c->aggregate, id) && cgroup_names_alive(c->names, id) == 0)
			bury(c, id);
	}
}

/* ---- another chance ---- */

static void unfold(uint64_t id, bool folded, void *userdata)
{
	struct census *c = userdata;
	auto_free char *path = NULL;

	if (!folded || find_path(c, id, &path) < 0 || !filter_pass(c->filter, path))
		return;
	aggregate_unbind(c->aggregate, id, c->now_ns);
	if (c->ladder->probe)
		(void)probe_unfold(c->ladder->probe, id);
}

static void give_another_chance(struct census *c)
{
	if (!c->unfold_due || c->now_ns - c->last_unfold_ns < UNFOLD_NS)
		return;
	c->unfold_due = c->some_over_limit = false;
	c->last_unfold_ns = c->now_ns;
	aggregate_visit(c->aggregate, unfold, c);
}

static void fold_excluded(struct census *c, uint64_t id)
{
	const struct identity *identity = aggregate_identity(c->aggregate, id);
	bool over_limit;

	if (!identity || identity->path[0] != '/' || filter_pass(c->filter, identity->path))
		return;
	aggregate_unbind(c->aggregate, id, c->now_ns);
	if (aggregate_bind(c->aggregate, id, NULL, &over_limit) == 0)
		fold_in_kernel(c, id);
}

void census_set_filter(struct census *c, struct filter *filter, uint64_t now_ns)
{
	c->now_ns = now_ns;
	filter_free(c->filter);
	c->filter = filter;
	aggregate_visit(c->aggregate, unfold, c);
	c->n_round = c->round_at = 0;
	aggregate_visit(c->aggregate, add_to_round, c);
	for (size_t i = 0; i < c->n_round; i++)
		fold_excluded(c, c->round[i]);
	c->n_round = 0;
}

/* ---- memory.stat ---- */

static void on_memcg_growth(const struct memcg_growth *g, void *userdata)
{
	struct census *c = userdata;

	if (c->ladder->memcg_counts_faults) {
		if (!aggregate_knows(c->aggregate, g->id))
			admit(c, g->id, g->path);
		aggregate_faults_unclassed(c->aggregate, g->id, g->faults);
	}
	if (!g->major)
		return;
	if (filter_pass(c->filter, g->path))
		aggregate_major(c->aggregate, g->path, g->major);
	else
		aggregate_major_other(c->aggregate, g->major);
}

static void read_memcg(struct census *c)
{
	size_t budget = MEMCG_READS_PER_TICK;
	int r;

	if (!c->ladder->memcg)
		return;
	if (c->ladder->memcg_counts_faults)
		budget += aggregate_live(c->aggregate) / MEMCG_TICKS_PER_ROUND;
	r = memcg_step(c->ladder->memcg, budget, on_memcg_growth, c);
	if (r == 1 && c->ladder->memcg_counts_faults)
		c->check_all = true;
	else if (r < 0)
		log_debug("memory.stat cannot be read: %s", strerror(-r));
}

/* ---- the outside ---- */

int census_life_fd(const struct census *c)
{
	return c->ladder->probe ? probe_life_fd(c->ladder->probe) : -EBADF;
}

static int hear(struct census *c, unsigned max)
{
	struct probe_life_handlers handlers = {
	    .born = on_born,
	    .died = on_died,
	    .renamed = on_renamed,
	    .userdata = c,
	};

	return c->ladder->probe ? probe_life_dispatch(c->ladder->probe, &handlers, max) : 0;
}

static void update_self(struct census *c)
{
	struct self_stats *self = c->self;
	struct probe_stats stats;
	struct probe_size size;

	self->cgroups_live = aggregate_live(c->aggregate);
	self->cgroups_dead = aggregate_dead(c->aggregate);
	self->cgroups_max = aggregate_max(c->aggregate);
	if (!c->ladder->probe)
		return;
	probe_stats(c->ladder->probe, &stats);
	probe_size(c->ladder->probe, &size);
	self->drop_no_slot = stats.drops[FAULT_DROP_NO_SLOT];
	self->drop_table_full = stats.drops[FAULT_DROP_TABLE_FULL];
	self->drop_table_busy = stats.drops[FAULT_DROP_TABLE_BUSY];
	self->drop_slot_leaked = stats.drops[FAULT_DROP_SLOT_LEAKED];
	self->drop_uncounted = stats.drops[FAULT_DROP_UNCOUNTED];
	self->drop_cgroup_ring = stats.drops[FAULT_DROP_CGROUP_RING];
	self->drop_bad_uncounted = stats.drops[FAULT_DROP_BAD_UNCOUNTED];
	self->drop_bad_note = stats.drops[FAULT_DROP_BAD_NOTE];
	self->drop_bad_latency = stats.drops[FAULT_DROP_BAD_LATENCY];
	self->crash_ring_lost = stats.drops[FAULT_DROP_CRASH_RING];
	self->drop_cpu_gap = stats.cpu_gaps;
	self->recursion_misses = stats.recursion_misses;
	self->slots_used = size.used;
	self->slots_max = size.slots;
	self->probe_memory_bytes = size.memory_bytes;
	if (self->drop_cgroup_ring != c->drops_seen) {
		c->drops_seen = self->drop_cgroup_ring;
		c->check_all = true;
	}
}

void census_refresh(struct census *c, uint64_t now_ns)
{
	c->now_ns = now_ns;
	if (c->ladder->probe) {
		/* Names first: whoever faulted was born before. */
		(void)hear(c, LIFE_RECORDS_MAX);
		c->n_collected = c->n_died;
		probe_collect(c->ladder->probe, on_growth, c);
	}
	update_self(c);
}

static void warn_when_full(struct census *c)
{
	size_t live = aggregate_live(c->aggregate), max = aggregate_max(c->aggregate);

	if (!c->warned_full && live * 100 >= max * FULL_WARN)
		log_warning(
		    "%zu cgroups have a series of their own, %zu can (cgroups.max); the next ones will count as %s",
		    live, max, IDENTITY_OTHER);
	if (live * 100 >= max * FULL_WARN)
		c->warned_full = true;
	else if (live * 100 < max * FULL_CALM)
		c->warned_full = false;
}

/* Slots of the dead come back after a few rounds of this; rounds are as far apart as probe_reclaim() demands. */
static void turn_slots_over(struct census *c)
{
	if (c->now_ns - c->last_turnover_ns < TURNOVER_NS)
		return;
	c->last_turnover_ns = c->now_ns;
	bury_announced(c);
	if (c->ladder->probe)
		probe_reclaim(c->ladder->probe, on_growth, on_drained, c);
}

void census_hear(struct census *c, uint64_t now_ns)
{
	(void)hear(c, LIFE_RECORDS_PER_TURN);
	/* Where cgroups come and go faster than ticks, their slots must come back faster, too. */
	if (c->n_died > 0 && now_ns - c->last_turnover_ns >= TURNOVER_NS) {
		census_refresh(c, now_ns);
		turn_slots_over(c);
	}
}

void census_tick(struct census *c, uint64_t now_ns)
{
	c->now_ns = now_ns;
	turn_slots_over(c);
	read_memcg(c);
	check_liveness(c);
	give_another_chance(c);
	warn_when_full(c);
}
