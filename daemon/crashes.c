/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/crashes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"

/* Records that one turn of the loop handles. */
#define RECORDS_PER_TURN 64
/* Crashes that wait for their process' end, and for how long: a core of many GiB takes its time. */
#define PENDING_MAX 64
#define PENDING_NS (10 * NSEC_PER_SEC)

struct pending {
	struct crash *crash;
	uint64_t until_ns;
};

struct crashes {
	struct ladder *ladder;
	struct census *census;
	struct self_stats *self;
	void (*published)(const struct crash *crash, void *userdata);
	void *userdata;
	struct crash_history *history;
	struct crash_limit *limit;
	uint32_t per_minute;
	struct pending pending[PENDING_MAX]; /* oldest first */
	size_t n_pending;
	uint64_t now_ns, now_unix_ns; /* of the running call */
};

int crashes_new(const struct config *config, struct ladder *ladder, struct census *census, struct self_stats *self,
		void (*published)(const struct crash *crash, void *userdata), void *userdata, struct crashes **ret)
{
	struct crashes *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->ladder = ladder;
	c->census = census;
	c->self = self;
	c->published = published;
	c->userdata = userdata;
	c->per_minute = config->bad_access.records_per_minute;
	r = crash_history_new(config->bad_access.history, &c->history);
	if (r == 0)
		r = crash_limit_new(config->cgroups.max, &c->limit);
	if (r < 0) {
		crashes_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

struct crashes *crashes_free(struct crashes *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n_pending; i++)
		crash_free(c->pending[i].crash);
	crash_history_free(c->history);
	crash_limit_free(c->limit);
	free(c);
	return NULL;
}

int crashes_configure(struct crashes *c, const struct config *config)
{
	int r = crash_history_resize(c->history, config->bad_access.history);

	if (r == 0)
		c->per_minute = config->bad_access.records_per_minute;
	return r;
}

const struct crash *crashes_next(const struct crashes *c, uint64_t after)
{
	return crash_history_next(c->history, after);
}

/* ---- the end of a process ---- */

static void publish(struct crashes *c, size_t at)
{
	struct crash *crash = c->pending[at].crash;
	uint64_t number;

	c->n_pending--;
	memmove(&c->pending[at], &c->pending[at + 1], (c->n_pending - at) * sizeof(c->pending[0]));
	number = crash_history_add(c->history, crash);
	c->self->crash_kept++;
	c->published(crash_history_next(c->history, number - 1), c->userdata);
}

static void on_exited(const struct crash_exit_event *event, void *userdata)
{
	struct crashes *c = userdata;

	for (size_t i = 0; i < c->n_pending; i++) {
		struct crash *crash = c->pending[i].crash;

		if (crash->pid != event->head.tgid || crash->tid != event->head.tid)
			continue;
		crash->core = event->core_written ? CRASH_CORE_WRITTEN : CRASH_CORE_NONE;
		crash_set_frames(crash, event);
		publish(c, i);
		return;
	}
}

void crashes_tick(struct crashes *c, uint64_t now_ns)
{
	while (c->n_pending > 0 && now_ns >= c->pending[0].until_ns)
		publish(c, 0);
}

/* ---- a new one ---- */

static enum crash_arch arch(void)
{
#ifdef __aarch64__
	return CRASH_ARCH_ARM64;
#else
	return CRASH_ARCH_X86_64;
#endif
}

static uint64_t wall_time(const struct crashes *c, uint64_t time_ns)
{
	return c->now_unix_ns - (c->now_ns > time_ns ? c->now_ns - time_ns : 0);
}

static int make(struct crashes *c, const struct crash_event *event, uint64_t suppressed)
{
	struct identity *identity = NULL;
	struct crash *crash;
	int r = census_identify(c->census, event->cgroup_id, c->now_ns, &identity);

	if (r == 0)
		r = crash_new(event, arch(), wall_time(c, event->time_ns), identity, &crash);
	if (r < 0)
		return r;
	crash->suppressed = suppressed;
	if (c->n_pending == PENDING_MAX)
		publish(c, 0);
	c->pending[c->n_pending++] = (struct pending){.crash = crash, .until_ns = c->now_ns + PENDING_NS};
	return 0;
}

static void on_crashed(const struct crash_event *event, void *userdata)
{
	struct crashes *c = userdata;
	uint64_t suppressed = 0;

	if (!census_wants(c->census, event->cgroup_id, c->now_ns)) {
		c->self->crash_excluded++;
		return;
	}
	if (!crash_limit_pass(c->limit, event->cgroup_id, c->per_minute, c->now_ns, &suppressed)) {
		c->self->crash_suppressed++;
		return;
	}
	if (make(c, event, suppressed) < 0)
		c->self->crash_lost++;
}

int crashes_fd(const struct crashes *c)
{
	return c->ladder->probe ? probe_crash_fd(c->ladder->probe) : -EBADF;
}

void crashes_hear(struct crashes *c, uint64_t now_ns, uint64_t now_unix_ns)
{
	struct probe_crash_handlers handlers = {.crashed = on_crashed, .exited = on_exited, .userdata = c};

	c->now_ns = now_ns;
	c->now_unix_ns = now_unix_ns;
	(void)probe_crash_dispatch(c->ladder->probe, &handlers, RECORDS_PER_TURN);
}
