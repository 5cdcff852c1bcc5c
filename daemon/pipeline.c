/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/pipeline_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/trim.h"
#include "daemon/delivery.h"
#include "daemon/exit.h"
#include "daemon/source/vmstat.h"

/* A dead cgroup that nobody asks for leaves after this long. */
#define LINGER_NS (300 * NSEC_PER_SEC)
#define STATUS_NS (10 * NSEC_PER_SEC)

/* ---- what sinks see ---- */

void pipeline_snapshot(struct pipeline *p, struct snapshot *ret)
{
	uint64_t now_ns = clock_monotonic_ns();

	census_refresh(p->census, now_ns);
	p->self.queue_batches = queue_count(p->queue);
	p->self.queue_bytes = queue_bytes(p->queue);
	p->self.queue_max_bytes = queue_max_bytes(p->queue);
	*ret = (struct snapshot){
	    .now_ns = now_ns,
	    .now_unix_ns = clock_realtime_ns(),
	    .aggregate = p->aggregate,
	    .deaths = aggregate_deaths(p->aggregate),
	    .self = &p->self,
	    .probes = p->probes,
	    .n_probes = ARRAY_SIZE(p->probes),
	    .vma_lock = vmstat_vma_lock(NULL, &p->vma_lock) == 0 ? &p->vma_lock : NULL,
	    .bad_signals = p->ladder.bad_signals,
	};
}

static int on_scrape(struct snapshot *ret, void *userdata)
{
	pipeline_snapshot(userdata, ret);
	return 0;
}

static void on_scraped(uint64_t deaths, void *userdata)
{
	struct pipeline *p = userdata;

	aggregate_reported(p->aggregate, AGGREGATE_SINK_SCRAPE, deaths);
}

static int on_health(const char **ret_reason, void *userdata)
{
	const struct pipeline *p = userdata;

	if (clock_monotonic_ns() > p->next_tick_ns + 3 * p->config->interval_ns) {
		*ret_reason = "intervals are not being closed in time";
		return -ETIMEDOUT;
	}
	return 0;
}

/* ---- the clockwork ---- */

int pipeline_arm(sd_event_source *timer, uint64_t at_ns)
{
	int r = sd_event_source_set_time(timer, at_ns / NSEC_PER_USEC);

	return r < 0 ? r : sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

uint64_t pipeline_next_after(uint64_t due_ns, uint64_t interval_ns, uint64_t now_ns)
{
	if (now_ns < due_ns)
		return due_ns;
	return due_ns + ((now_ns - due_ns) / interval_ns + 1) * interval_ns;
}

static void tell_status(struct pipeline *p, uint64_t now_ns)
{
	double rate = 0;

	if (now_ns - p->last_status_ns < STATUS_NS)
		return;
	p->last_status_ns = now_ns;
	for (size_t at = 0; at < aggregate_size(p->aggregate); at++)
		if (aggregate_entry(p->aggregate, at))
			rate += aggregate_rate(p->aggregate, at, 0);
	(void)sd_notifyf(0, "STATUS=page faults by %s: %.0f/s in %zu cgroups; %zu batches wait for the collector",
			 p->ladder.page_faults, rate, aggregate_live(p->aggregate), queue_count(p->queue));
}

static int on_tick(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct pipeline *p = userdata;
	uint64_t now_ns = clock_monotonic_ns();

	p->self.ticks++;
	if (now_ns > p->next_tick_ns + p->config->interval_ns / 2)
		p->self.ticks_late++;
	census_refresh(p->census, now_ns);
	census_tick(p->census, now_ns);
	crashes_tick(p->crashes, now_ns);
	aggregate_tick(p->aggregate, now_ns, clock_realtime_ns());
	tell_status(p, now_ns);
	if (!p->trimmed) {
		trim_memory();
		p->trimmed = true;
	}
	p->next_tick_ns = pipeline_next_after(p->next_tick_ns, p->config->interval_ns, now_ns);
	return pipeline_arm(p->tick_timer, p->next_tick_ns);
}

static int on_life(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct pipeline *p = userdata;

	census_hear(p->census, clock_monotonic_ns());
	return 0;
}

static int on_crash_records(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct pipeline *p = userdata;

	crashes_hear(p->crashes, clock_monotonic_ns(), clock_realtime_ns());
	return 0;
}

static void on_crash(const struct crash *crash, void *userdata)
{
	struct pipeline *p = userdata;

	announce_crash(p->announce, crash);
	delivery_crash(p, crash);
}

static const struct crash *on_crash_asked(uint64_t after, void *userdata)
{
	const struct pipeline *p = userdata;

	return crashes_next(p->crashes, after);
}

/* ---- building ---- */

static int fail(int *ret_exit, enum exit_code code, int error, const char *what)
{
	*ret_exit = code;
	return log_error_errno(error, "%s: %s", what, strerror(abs(error)));
}

static void tell_step(const char *what, const struct ladder_step *step, bool is_error)
{
	if (step->tried)
		log_at(is_error          ? LOG_ERR
		       : step->error < 0 ? LOG_WARNING
					 : LOG_INFO,
		       step->error, "%s by %s: %s%s", what, step->rung, step->error < 0 ? "not usable: " : "",
		       step->text);
}

static int start_probes(struct pipeline *p, int *ret_exit)
{
	int r = cgroup_mounts_read("/proc/self/mountinfo", &p->mounts);

	if (r < 0)
		return fail(ret_exit, FAULTD_FAILED, r, "cannot read where cgroups are mounted");
	r = ladder_climb(p->config, &p->mounts, &p->ladder);
	log_at(p->ladder.hierarchy.error ? LOG_ERR : LOG_INFO, 0, "cgroups: %s", p->ladder.hierarchy.text);
	for (size_t i = 0; i < LADDER_RUNGS; i++)
		tell_step("page faults", &p->ladder.steps[i], r < 0);
	tell_step("bad accesses", &p->ladder.bad_access, false);
	if (r < 0) {
		*ret_exit = ladder_exit_code(r);
		return r;
	}
	p->probes[0] = (struct probe_info){.probe = "page_faults", .backend = p->ladder.page_faults};
	p->probes[1] = (struct probe_info){.probe = "major_page_faults", .backend = p->ladder.major_faults};
	p->probes[2] = (struct probe_info){.probe = "bad_accesses", .backend = p->ladder.bad_accesses};
	return 0;
}

static uint32_t max_ids(const struct pipeline *p)
{
	struct probe_size size;

	if (!p->ladder.probe)
		return p->config->cgroups.max * FAULT_HASH_FACTOR;
	probe_size(p->ladder.probe, &size);
	return size.max_ids;
}

uint32_t pipeline_sinks(const struct config *c)
{
	return (c->scrape.listen.count ? AGGREGATE_SINK_SCRAPE : 0) | (c->ship.endpoint[0] ? AGGREGATE_SINK_SHIP : 0);
}

static int start_model(struct pipeline *p)
{
	struct aggregate_options options = {
	    .max_cgroups = p->config->cgroups.max,
	    .max_ids = max_ids(p),
	    .interval_ns = p->config->interval_ns,
	    .windows_ns = p->config->windows_ns,
	    .n_windows = p->config->n_windows,
	    .sinks = pipeline_sinks(p->config),
	    .linger_ns = LINGER_NS,
	    .now_ns = clock_monotonic_ns(),
	    .now_unix_ns = clock_realtime_ns(),
	};
	int r = aggregate_new(&options, &p->aggregate);

	if (r == 0)
		r = census_new(p->config, &p->ladder, p->aggregate, &p->self, &p->census);
	return r < 0 ? r : crashes_new(p->config, &p->ladder, p->census, &p->self, on_crash, p, &p->crashes);
}

int pipeline_make_scrape(struct pipeline *p, const struct config *c, struct scrape **ret)
{
	struct scrape_handlers handlers = {
	    .snapshot = on_scrape,
	    .reported = on_scraped,
	    .health = on_health,
	    .self = &p->self,
	    .userdata = p,
	};

	if (c->scrape.listen.count == 0)
		return 0;
	return scrape_new(p->event, c->scrape.listen.items, c->scrape.listen.count, c->scrape.max_concurrent, &handlers,
			  ret);
}

void pipeline_tell_addresses(const struct pipeline *p)
{
	const char *address;

	for (size_t at = 0; p->scrape && (address = scrape_address(p->scrape, at)); at++)
		log_info("scrape: listening on %s", address);
}

int pipeline_make_timer(struct pipeline *p, uint64_t at_ns, sd_event_time_handler_t handler, int64_t priority,
			sd_event_source **ret)
{
	int r = sd_event_add_time(p->event, ret, CLOCK_MONOTONIC, at_ns / NSEC_PER_USEC, 1000, handler, p);

	return r < 0 ? r : sd_event_source_set_priority(*ret, priority);
}

static int start_clockwork(struct pipeline *p)
{
	int fd = census_life_fd(p->census), r;

	p->next_tick_ns = clock_monotonic_ns() + p->config->interval_ns;
	/* Ticks go first: rates are as true as their clock. */
	r = pipeline_make_timer(p, p->next_tick_ns, on_tick, SD_EVENT_PRIORITY_IMPORTANT, &p->tick_timer);
	if (r >= 0 && fd >= 0)
		r = sd_event_add_io(p->event, &p->life, fd, EPOLLIN, on_life, p);
	fd = crashes_fd(p->crashes);
	if (r >= 0 && fd >= 0)
		r = sd_event_add_io(p->event, &p->crash_records, fd, EPOLLIN, on_crash_records, p);
	return r < 0 ? r : delivery_start_timer(p);
}

static int start_announce(struct pipeline *p)
{
	struct control_handlers handlers = {.crash_next = on_crash_asked, .snapshot = on_scrape, .userdata = p};

	return announce_new(p->event, p->config, &handlers, &p->self, &p->announce);
}

static int build(struct pipeline *p, int *ret_exit)
{
	int r;

	*ret_exit = FAULTD_NO_RESOURCE;
	host_read(&p->host);
	log_set_max_level(p->config->log.level);
	r = start_probes(p, ret_exit);
	if (r < 0)
		return r;
	r = start_model(p);
	if (r < 0)
		return fail(ret_exit, FAULTD_NO_RESOURCE, r, "cannot set up the tables");
	r = pipeline_make_scrape(p, p->config, &p->scrape);
	if (r < 0) {
		*ret_exit = FAULTD_NO_RESOURCE; /* which address and why was logged by the endpoint */
		return r;
	}
	pipeline_tell_addresses(p);
	r = start_announce(p);
	if (r < 0)
		return fail(ret_exit, FAULTD_NO_RESOURCE, r, "cannot set up the control socket");
	r = queue_new(p->config->ship.queue_bytes, &p->queue);
	if (r == 0)
		r = delivery_make_ship(p, p->config, &p->ship);
	if (r < 0)
		return fail(ret_exit, FAULTD_NO_RESOURCE, r, "cannot set up delivery");
	r = start_clockwork(p);
	if (r < 0)
		return fail(ret_exit, FAULTD_FAILED, r, "cannot set up timers");
	p->self.config_ok = 1;
	tell_status(p, clock_monotonic_ns());
	return 0;
}

int pipeline_new(sd_event *event, struct config *config, const char *config_file, struct pipeline **ret, int *ret_exit)
{
	struct pipeline *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		config_free(config);
		return fail(ret_exit, FAULTD_NO_RESOURCE, -ENOMEM, "cannot start");
	}
	p->event = sd_event_ref(event);
	p->config = config;
	p->config_file = config_file;
	r = build(p, ret_exit);
	if (r < 0) {
		pipeline_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct pipeline *pipeline_free(struct pipeline *p)
{
	if (!p)
		return NULL;
	sd_event_source_disable_unref(p->tick_timer);
	sd_event_source_disable_unref(p->ship_timer);
	sd_event_source_disable_unref(p->life);
	sd_event_source_disable_unref(p->crash_records);
	scrape_free(p->scrape);
	ship_free(p->ship);
	queue_free(p->queue);
	announce_free(p->announce);
	crashes_free(p->crashes);
	census_free(p->census);
	aggregate_free(p->aggregate);
	ladder_done(&p->ladder);
	cgroup_mounts_done(&p->mounts);
	config_free(p->config);
	sd_event_unref(p->event);
	free(p);
	return NULL;
}

void pipeline_note_turn(struct pipeline *p, uint64_t ns)
{
	if (ns > p->self.loop_worst_ns)
		p->self.loop_worst_ns = ns;
}
