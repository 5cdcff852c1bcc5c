/* SPDX-License-Identifier: Apache-2.0 */
/* A new configuration for a running pipeline: parsed and checked afresh, what can fail prepared, then swapped. */
#include <errno.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/pipeline_state.h"

static bool same_list(const struct config_list *a, const struct config_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->items[i], b->items[i]) != 0)
			return false;
	return true;
}

static bool same_clockwork(const struct config *a, const struct config *b)
{
	return a->interval_ns == b->interval_ns && a->n_windows == b->n_windows &&
	       memcmp(a->windows_ns, b->windows_ns, a->n_windows * sizeof(a->windows_ns[0])) == 0;
}

/* What was sized at start stays as it is; the running configuration says so too. */
static void keep_until_restart(const struct config *old, struct config *fresh)
{
	const struct {
		const char *key;
		bool changed;
	} fixed[] = {
	    {"cgroups.max", old->cgroups.max != fresh->cgroups.max},
	    {"cgroups.memory", old->cgroups.memory_bytes != fresh->cgroups.memory_bytes},
	    {"cgroups.hierarchy", old->cgroups.hierarchy != fresh->cgroups.hierarchy},
	    {"probes.page_faults", old->probes.page_faults != fresh->probes.page_faults},
	    {"probes.bad_access", old->probes.bad_access != fresh->probes.bad_access},
	    {"bad_access.also", old->bad_access.also != fresh->bad_access.also},
	    {"bad_access.latency", old->bad_access.latency != fresh->bad_access.latency},
	};

	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (fixed[i].changed)
			log_warning("%s takes effect at the next restart, ignoring its change until then",
				    fixed[i].key);
	fresh->cgroups.max = old->cgroups.max;
	fresh->cgroups.memory_bytes = old->cgroups.memory_bytes;
	fresh->cgroups.hierarchy = old->cgroups.hierarchy;
	fresh->probes = old->probes;
	fresh->bad_access.also = old->bad_access.also;
	fresh->bad_access.latency = old->bad_access.latency;
}

/* "" for unix sockets, systemd's, and any free port. */
static const char *port_of(const char *listen)
{
	const char *colon = strrchr(listen, ':');

	return !colon || strncmp(listen, "unix:", 5) == 0 || strcmp(colon, ":0") == 0 ? "" : colon + 1;
}

/* 127.0.0.1:11011 and 0.0.0.0:11011 are in each other's way, too. */
static bool share_port(const struct config_list *a, const struct config_list *b)
{
	for (size_t i = 0; i < a->count; i++)
		for (size_t j = 0; j < b->count; j++)
			if (*port_of(a->items[i]) && strcmp(port_of(a->items[i]), port_of(b->items[j])) == 0)
				return true;
	return false;
}

/* New sockets are opened before the old ones close, unless they are in each other's way. */
static int change_scrape(struct pipeline *p, const struct config *fresh)
{
	struct scrape *scrape = NULL;
	int r;

	if (same_list(&p->config->scrape.listen, &fresh->scrape.listen)) {
		if (p->scrape)
			scrape_set_max_concurrent(p->scrape, fresh->scrape.max_concurrent);
		return 0;
	}
	r = pipeline_make_scrape(p, fresh, &scrape);
	if (r == -EADDRINUSE && share_port(&p->config->scrape.listen, &fresh->scrape.listen)) {
		p->scrape = scrape_free(p->scrape);
		r = pipeline_make_scrape(p, fresh, &scrape);
		if (r < 0 && pipeline_make_scrape(p, p->config, &p->scrape) < 0)
			log_error("scrape: the old addresses could not be opened again, ignoring: there is no scrape "
				  "endpoint now");
	}
	if (r < 0)
		return r;
	scrape_free(p->scrape);
	p->scrape = scrape;
	pipeline_tell_addresses(p);
	return 0;
}

static bool same_ship(const struct config *a, const struct config *b)
{
	if (strcmp(a->ship.endpoint, b->ship.endpoint) != 0 || a->ship.timeout_ns != b->ship.timeout_ns ||
	    a->ship.compression != b->ship.compression || a->ship.n_headers != b->ship.n_headers)
		return false;
	for (size_t i = 0; i < a->ship.n_headers; i++)
		if (strcmp(a->ship.headers[i].name, b->ship.headers[i].name) != 0 ||
		    strcmp(a->ship.headers[i].value, b->ship.headers[i].value) != 0)
			return false;
	return true;
}

/* Only memory can be short here; then the old windows stay, and the running configuration says so. */
static void change_windows(struct pipeline *p, struct config *fresh)
{
	uint64_t now_ns = clock_monotonic_ns();
	int r;

	if (same_clockwork(p->config, fresh))
		return;
	r = aggregate_rewindow(p->aggregate, fresh->interval_ns, fresh->windows_ns, fresh->n_windows, now_ns);
	if (r == 0) {
		p->next_tick_ns = now_ns + fresh->interval_ns;
		r = pipeline_arm(p->tick_timer, p->next_tick_ns);
	}
	if (r == 0)
		return;
	log_error_errno(r, "interval and windows cannot be changed (%s), ignoring: the old ones stay", strerror(-r));
	fresh->interval_ns = p->config->interval_ns;
	fresh->n_windows = p->config->n_windows;
	memcpy(fresh->windows_ns, p->config->windows_ns, sizeof(fresh->windows_ns));
}

/* A delivery under way goes on unless its destination changed; the phase stays unless the interval changed. */
static void change_ship(struct pipeline *p, const struct config *fresh, struct ship *ship)
{
	size_t dropped = 0;

	if (!same_ship(p->config, fresh)) {
		ship_free(p->ship);
		p->ship = ship;
	}
	queue_set_max_bytes(p->queue, fresh->ship.queue_bytes, &dropped);
	p->self.drop_queue_full += dropped;
}

static void change_crashes(struct pipeline *p, struct config *fresh)
{
	int r = crashes_configure(p->crashes, fresh);

	if (r < 0) {
		log_error_errno(r, "bad_access.history cannot be changed (%s), ignoring: the old one stays",
				strerror(-r));
		fresh->bad_access.history = p->config->bad_access.history;
	}
	announce_configure(p->announce, fresh);
}

/* What can fail comes first. Takes over `fresh` only if it succeeds; else nothing has changed. */
static int apply(struct pipeline *p, struct config *fresh)
{
	bool new_timer = !same_ship(p->config, fresh) || p->config->ship.interval_ns != fresh->ship.interval_ns;
	struct filter *filter = NULL;
	struct ship *ship = NULL;
	int r;

	keep_until_restart(p->config, fresh);
	r = filter_new(fresh->cgroups.include.items, fresh->cgroups.include.count, fresh->cgroups.exclude.items,
		       fresh->cgroups.exclude.count, &filter);
	if (r == 0 && !same_ship(p->config, fresh))
		r = pipeline_make_ship(p, fresh, &ship);
	if (r == 0)
		r = change_scrape(p, fresh);
	if (r < 0) {
		filter_free(filter);
		ship_free(ship);
		return r;
	}
	change_windows(p, fresh);
	change_crashes(p, fresh);
	census_set_filter(p->census, filter, clock_monotonic_ns());
	change_ship(p, fresh, ship);
	aggregate_set_sinks(p->aggregate, pipeline_sinks(fresh));
	log_set_max_level(fresh->log.level);
	config_free(p->config);
	p->config = fresh;
	if (new_timer && (r = pipeline_start_ship_timer(p)) < 0)
		log_error_errno(
		    r, "cannot set the delivery timer (%s), ignoring: nothing is shipped until the next reload",
		    strerror(-r));
	return 0;
}

static int reload(struct pipeline *p)
{
	auto_strbuf errors = {0};
	struct config *fresh = NULL;
	int r = config_load(p->config_file, &errors, &fresh);

	if (r < 0) {
		log_error_lines(errors.data);
		return r;
	}
	r = apply(p, fresh);
	if (r < 0)
		config_free(fresh);
	return r;
}

void pipeline_reload(struct pipeline *p)
{
	int r = reload(p);

	p->self.config_ok = r == 0;
	if (r < 0) {
		p->self.reloads_failed++;
		log_error_errno(r, "reload failed (%s): the old configuration stays", strerror(-r));
		return;
	}
	p->self.reloads_ok++;
	log_notice("configuration reloaded");
}
