/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/delivery.h"

#include <errno.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/sink/crash_line.h"
#include "daemon/sink/otlp.h"
#include "daemon/sink/otlp_logs.h"

/* Compressing a body of this size holds the loop for about 1 ms; collectors take several times as much. */
#define BATCH_BYTES ((size_t)512 << 10)
/* Crashes are collected for a request up to this many. */
#define CRASHES_MAX 128
#define USER_AGENT "faultd/" FAULTD_VERSION

/* ---- batches ---- */

static struct otlp_host otlp_host_of(const struct pipeline *p)
{
	return (struct otlp_host){
	    .service_version = FAULTD_VERSION,
	    .host_id = p->host.id,
	    .host_name = p->host.name,
	    .host_arch = p->host.arch,
	};
}

static void queue_batches(struct pipeline *p, enum queue_kind kind, struct otlp_batch *batches, size_t n)
{
	struct queue_dropped gave_way;

	for (size_t i = 0; i < n; i++) {
		int r = queue_push(p->queue, kind, take_ptr(batches[i].data), batches[i].size, batches[i].points,
				   clock_monotonic_ns(), &gave_way);

		ship_count_dropped(&p->self, &gave_way);
		if (r < 0)
			log_debug("a batch found no room in the queue: %s", strerror(-r));
	}
	otlp_batches_free(batches, n);
}

static void queue_snapshot(struct pipeline *p)
{
	struct otlp_host host = otlp_host_of(p);
	struct otlp_batch *batches = NULL;
	struct snapshot snapshot;
	size_t n = 0, dropped = 0;
	int r;

	pipeline_snapshot(p, &snapshot);
	r = otlp_encode(&snapshot, &host, BATCH_BYTES, &batches, &n, &dropped);
	if (r < 0) {
		log_warning_errno(
		    r, "cannot encode a batch for the collector (%s), ignoring: the next one carries the same totals",
		    strerror(-r));
		return;
	}
	p->self.drop_too_large += dropped;
	queue_batches(p, QUEUE_METRICS, batches, n);
	aggregate_reported(p->aggregate, AGGREGATE_SINK_SHIP, snapshot.deaths);
}

/* ---- crashes ---- */

static void queue_crashes(struct pipeline *p)
{
	const struct crash *crashes[CRASHES_MAX];
	struct otlp_host host = otlp_host_of(p);
	struct otlp_logs_options options = {
	    .host = &host,
	    .body = crash_line_message,
	    .addresses = announce_disclosure(p->config) == CRASH_ADDRESSES_ALL,
	    .observed_unix_ns = clock_realtime_ns(),
	    .max_bytes = BATCH_BYTES,
	};
	struct otlp_batch *batches = NULL;
	size_t n = 0, n_batches = 0, dropped = 0;

	while (n < CRASHES_MAX && (crashes[n] = crashes_next(p->crashes, p->crash_shipped)))
		p->crash_shipped = crashes[n++]->number;
	if (n == 0)
		return;
	if (otlp_logs_encode(crashes, n, &options, &batches, &n_batches, &dropped) < 0) {
		p->self.drop_log_no_memory += n;
		return;
	}
	p->self.drop_log_too_large += dropped;
	queue_batches(p, QUEUE_LOGS, batches, n_batches);
}

void delivery_crash(struct pipeline *p, const struct crash *crash)
{
	uint64_t most = p->config->bad_access.history / 2;

	if (!p->ship || !p->config->ship.logs)
		p->crash_shipped = crash->number;
	else if (crash->number - p->crash_shipped >= (most < CRASHES_MAX ? most : CRASHES_MAX))
		queue_crashes(p);
}

/* ---- the sink and its timer ---- */

int delivery_make_ship(struct pipeline *p, const struct config *c, struct ship **ret)
{
	struct ship_options options = {
	    .endpoint = c->ship.endpoint,
	    .timeout_ns = c->ship.timeout_ns,
	    .gzip = c->ship.compression == CONFIG_COMPRESSION_GZIP,
	    .headers = (const struct ship_header *)c->ship.headers,
	    .n_headers = c->ship.n_headers,
	    .user_agent = USER_AGENT,
	};

	if (!c->ship.endpoint[0])
		return 0;
	return ship_new(p->event, &options, p->queue, &p->self, ret);
}

_Static_assert(sizeof(struct ship_header) == sizeof(struct config_header),
	       "the shipper reads the configuration's headers");

static int on_ship(sd_event_source *timer, uint64_t usec, void *userdata)
{
	struct pipeline *p = userdata;

	queue_snapshot(p);
	queue_crashes(p);
	ship_kick(p->ship);
	p->next_ship_ns = pipeline_next_after(p->next_ship_ns, p->config->ship.interval_ns, clock_monotonic_ns());
	return pipeline_arm(p->ship_timer, p->next_ship_ns);
}

/* The phase of deliveries comes from the host's id, so that a fleet that was started at once does not deliver at once.
 */
static uint64_t ship_phase_ns(const struct pipeline *p, uint64_t interval_ns)
{
	uint64_t hash = 0;

	for (const char *c = p->host.id[0] ? p->host.id : p->host.name; *c; c++)
		hash = hash * 31 + (unsigned char)*c;
	return hash % interval_ns;
}

int delivery_start_timer(struct pipeline *p)
{
	p->ship_timer = sd_event_source_disable_unref(p->ship_timer);
	if (!p->ship)
		return 0;
	p->next_ship_ns = clock_monotonic_ns() + ship_phase_ns(p, p->config->ship.interval_ns);
	return pipeline_make_timer(p, p->next_ship_ns, on_ship, SD_EVENT_PRIORITY_NORMAL, &p->ship_timer);
}
