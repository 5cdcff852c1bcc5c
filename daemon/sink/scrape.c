/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/scrape.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/sink/exposition.h"
#include "daemon/sink/gzip.h"
#include "daemon/sink/negotiate.h"
#include "daemon/sink/process.h"
#include "daemon/sink/scrape_clients.h"
#include "daemon/sink/scrape_listen.h"

#define CLIENTS_MAX 64                     /* connections per listening socket */
#define ROOM_PAUSE_NS (10 * NSEC_PER_MSEC) /* how soon to look for room again */
#define CLIENTS_SPARE 4                    /* kept free by closing the one that is due first */
#define CLIENT_MEMORY ((size_t)16384)      /* bounds the headers of a request: more gets 431 */
/* Not near a usual scrape interval, so that a connection is never closed just as its next request arrives. */
#define IDLE_SECONDS 13u
#define DEADLINE_NS (30 * NSEC_PER_SEC)
#define BODY_MAX_BYTES 65536 /* of a request; we have no use for any */
#define GZIP_MIN_BYTES 1024
/* Behind whatever counts: a storm of scrapes must not delay a tick. */
#define SOURCE_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 10)

#define TYPE_TEXT "text/plain; charset=utf-8"
#define TYPE_HTML "text/html; charset=utf-8"

static const char landing_page[] = "<!DOCTYPE html>\n"
				   "<html lang=\"en\"><head><meta charset=\"utf-8\"><title>faultd</title></head>\n"
				   "<body><h1>faultd " FAULTD_VERSION "</h1>\n"
				   "<p>Page faults per cgroup.</p>\n"
				   "<ul><li><a href=\"/metrics\">Metrics</a></li>\n"
				   "<li><a href=\"/healthz\">Health</a></li></ul>\n"
				   "</body></html>\n";

/* A connection and the request on it that is under way. */
struct client {
	struct scrape_client link; /* first */
	struct endpoint *endpoint;
	bool counted; /* among scrape.active */
	bool whole;   /* a GET of /metrics that is answered with the exposition */
	size_t body;  /* bytes of its body so far */
	uint64_t deaths;
};

/* A listening socket and what serves it. */
struct endpoint {
	struct scrape *scrape;
	struct MHD_Daemon *daemon;
	sd_event_source *io;
	sd_event_source *timer;
	struct scrape_clients clients;
};

struct scrape {
	sd_event *event;
	struct scrape_handlers handlers;
	struct listeners listeners;
	struct endpoint *endpoints; /* as many as listeners */
	uint64_t deadline_ns;
	uint32_t max_concurrent;
	uint32_t active; /* answers to /metrics that were not sent to their end */
	struct process_stats process;
};

static uint64_t now_ns(const struct scrape *s)
{
	uint64_t usec = 0;

	(void)sd_event_now(s->event, CLOCK_MONOTONIC, &usec);
	return usec * NSEC_PER_USEC;
}

/* ---- connections ---- */

static struct client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void begin_client(struct endpoint *e, struct MHD_Connection *connection, void **context)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct client *c = calloc(1, sizeof(*c));

	*context = c;
	if (!c)
		return; /* its requests will be refused */
	c->endpoint = e;
	scrape_clients_add(&e->clients, &c->link, info ? info->connect_fd : -EBADF, now_ns(e->scrape));
	scrape_clients_make_room(&e->clients, CLIENTS_MAX - CLIENTS_SPARE);
}

static void on_connection(void *userdata, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct client *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		begin_client(userdata, connection, context);
		return;
	}
	if (!c)
		return;
	scrape_clients_remove(&c->endpoint->clients, &c->link);
	free(c);
	*context = NULL;
}

static void on_completed(void *userdata, struct MHD_Connection *connection, void **request,
			 enum MHD_RequestTerminationCode code)
{
	struct client *c = *request;
	struct scrape *s;

	if (!c)
		return;
	s = c->endpoint->scrape;
	s->active -= c->counted;
	if (c->whole && code == MHD_REQUEST_TERMINATED_COMPLETED_OK) {
		s->handlers.self->scrapes++;
		s->handlers.reported(c->deaths, s->handlers.userdata);
	} else if (c->whole) {
		s->handlers.self->scrapes_failed++;
	}
	c->counted = c->whole = false;
	scrape_clients_renew(&c->endpoint->clients, &c->link, now_ns(s));
	*request = NULL;
}

/* ---- answers ---- */

/* Takes over `r`, which may be NULL for want of memory: then the connection is closed. */
static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned status, struct MHD_Response *r,
				     const char *type)
{
	enum MHD_Result result = MHD_NO;

	if (!r)
		return MHD_NO;
	if (MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES)
		result = MHD_queue_response(connection, status, r);
	MHD_destroy_response(r);
	return result;
}

/* `text` is static. */
static struct MHD_Response *static_response(const char *text)
{
	return MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
	return send_response(connection, status, static_response(text), TYPE_TEXT);
}

static enum MHD_Result send_unavailable(struct MHD_Connection *connection, const char *text)
{
	struct MHD_Response *r = static_response(text);

	if (r)
		(void)MHD_add_response_header(r, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	return send_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, r, TYPE_TEXT);
}

static enum MHD_Result send_health(struct scrape *s, struct MHD_Connection *connection)
{
	const char *reason = "not well";
	struct MHD_Response *r;
	char text[256];
	int n;

	if (s->handlers.health(&reason, s->handlers.userdata) == 0)
		return send_text(connection, MHD_HTTP_OK, "ok\n");
	n = snprintf(text, sizeof(text), "%s\n", reason);
	if (n < 0 || (size_t)n >= sizeof(text))
		n = sizeof(text) - 1;
	r = MHD_create_response_from_buffer((size_t)n, text, MHD_RESPMEM_MUST_COPY);
	return send_response(connection, MHD_HTTP_SERVICE_UNAVAILABLE, r, TYPE_TEXT);
}

/* ---- /metrics ---- */

struct header_join {
	const char *name;
	struct strbuf text;
};

static enum MHD_Result join_header(void *userdata, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct header_join *join = userdata;

	if (value && strcasecmp(key, join->name) == 0) {
		strbuf_adds(&join->text, join->text.len ? "," : "");
		strbuf_adds(&join->text, value);
	}
	return MHD_YES;
}

/* All values of a header that is a list, as one (RFC 9110 section 5.3); NULL if not given. The caller frees. */
static char *list_header(struct MHD_Connection *connection, const char *name)
{
	struct header_join join = {.name = name};

	(void)MHD_get_connection_values(connection, MHD_HEADER_KIND, join_header, &join);
	return join.text.len ? strbuf_take(&join.text) : NULL;
}

static int render(struct scrape *s, struct client *c, enum exposition_format format, struct strbuf *out)
{
	struct self_stats *self = s->handlers.self;
	struct snapshot snapshot = {0};
	int r = s->handlers.snapshot(&snapshot, s->handlers.userdata);

	if (r < 0)
		return r;
	process_read(&s->process);
	snapshot.process = &s->process;
	c->deaths = snapshot.deaths;
	/* About what it took last time and a little more: growing by doubling would touch the memory twice. */
	strbuf_reserve(out, (size_t)(self->scrape_bytes + self->scrape_bytes / 16 + 4096));
	exposition_render(&snapshot, format, out);
	if (strbuf_error(out) == 0)
		self->scrape_bytes = out->len;
	return strbuf_error(out);
}

/* Hands the text over to a response, compressed if the client likes it so. */
static struct MHD_Response *metrics_response(struct strbuf *text, const char *accept_encoding)
{
	size_t size = text->len;
	uint8_t *packed = NULL;
	struct MHD_Response *r;
	char *body;

	if (size >= GZIP_MIN_BYTES && negotiate_gzip(accept_encoding) &&
	    gzip_compress(text->data, size, &packed, &size) == 0)
		body = (char *)packed;
	else
		body = strbuf_take(text);
	if (!body)
		return NULL;
	r = MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE);
	if (!r) {
		free(body);
		return NULL;
	}
	(void)MHD_add_response_header(r, MHD_HTTP_HEADER_VARY, "Accept, Accept-Encoding");
	if (packed)
		(void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
	return r;
}

static enum MHD_Result send_metrics(struct client *c, struct MHD_Connection *connection, bool head)
{
	struct scrape *s = c->endpoint->scrape;
	auto_free char *accept = list_header(connection, MHD_HTTP_HEADER_ACCEPT);
	auto_free char *encoding = list_header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING);
	enum exposition_format format = exposition_negotiate(accept);
	auto_strbuf text = {0};

	if (s->active >= s->max_concurrent) {
		s->handlers.self->scrapes_busy++;
		return send_unavailable(connection, "too many scrapes at once\n");
	}
	if (render(s, c, format, &text) < 0) {
		s->handlers.self->scrapes_failed++;
		return send_unavailable(connection, "the counters cannot be read at present\n");
	}
	s->active++;
	c->counted = true;
	c->whole = !head;
	return send_response(connection, MHD_HTTP_OK, metrics_response(&text, encoding),
			     exposition_content_type(format));
}

/* ---- requests ---- */

static enum MHD_Result answer(struct client *c, struct MHD_Connection *connection, const char *path, const char *method)
{
	bool head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
	bool metrics = strcmp(path, "/metrics") == 0, health = strcmp(path, "/healthz") == 0;
	struct MHD_Response *r;

	if (!metrics && !health && strcmp(path, "/") != 0)
		return send_text(connection, MHD_HTTP_NOT_FOUND, "not found; the metrics are at /metrics\n");
	if (!head && strcmp(method, MHD_HTTP_METHOD_GET) != 0) {
		r = static_response("method not allowed\n");
		if (r)
			(void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
		return send_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, r, TYPE_TEXT);
	}
	if (metrics)
		return send_metrics(c, connection, head);
	if (health)
		return send_health(c->endpoint->scrape, connection);
	r = static_response(landing_page);
	if (r) /* nothing to load, nothing to run */
		(void)MHD_add_response_header(r, "Content-Security-Policy", "default-src 'none'");
	return send_response(connection, MHD_HTTP_OK, r, TYPE_HTML);
}

/* A body of a known size that is not worth reading: the answer goes out first and the connection ends. */
static bool announces_too_much(struct MHD_Connection *connection)
{
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return length && strtoull(length, NULL, 10) > BODY_MAX_BYTES;
}

/* Called when the headers of a request are there, for each part of its body, and at its end. */
static enum MHD_Result on_request(void *userdata, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *body, size_t *body_size,
				  void **request)
{
	struct client *c = *request;

	if (!c) {
		c = *request = client_of(connection);
		if (!c)
			return MHD_NO;
		c->body = 0;
		return announces_too_much(connection) ? answer(c, connection, path, method) : MHD_YES;
	}
	if (*body_size > 0) {
		c->body += *body_size;
		*body_size = 0;
		return c->body <= BODY_MAX_BYTES ? MHD_YES : MHD_NO;
	}
	return answer(c, connection, path, method);
}

/* ---- event loop ---- */

__attribute__((format(printf, 2, 0))) static void on_message(void *userdata, const char *format, va_list args)
{
	char text[256];

	/* About clients that misbehave, mostly: no reason to fill a log. */
	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\r\n")] = '\0';
	log_debug("scrape: %s", text);
}

/* At its limit libmicrohttpd stops listening, and only a run of it that finds room makes it listen again; connections that are
 * cut off give their room back in such a run too. Nothing on a socket calls for either. */
static bool waits_for_room(const struct endpoint *e)
{
	return e->clients.n_closing > 0 || e->clients.n_open + e->clients.n_closing >= CLIENTS_MAX - CLIENTS_SPARE;
}

/* The timer goes off when libmicrohttpd wants to run or the first connection is due, whichever is sooner. */
static int arm(struct endpoint *e)
{
	uint64_t at = scrape_clients_due(&e->clients, e->scrape->deadline_ns);
	MHD_UNSIGNED_LONG_LONG wait_ms;

	if (waits_for_room(e) && now_ns(e->scrape) + ROOM_PAUSE_NS < at)
		at = now_ns(e->scrape) + ROOM_PAUSE_NS;
	if (MHD_get_timeout(e->daemon, &wait_ms) == MHD_YES && now_ns(e->scrape) + wait_ms * NSEC_PER_MSEC < at)
		at = now_ns(e->scrape) + wait_ms * NSEC_PER_MSEC;
	if (at == UINT64_MAX)
		return sd_event_source_set_enabled(e->timer, SD_EVENT_OFF);
	if (sd_event_source_set_time(e->timer, at / NSEC_PER_USEC + 1) < 0)
		return -EIO;
	return sd_event_source_set_enabled(e->timer, SD_EVENT_ONESHOT);
}

/* Errors end here: an error returned to sd-event would switch the endpoint off for good. */
static void run_endpoint(struct endpoint *e)
{
	scrape_clients_expire(&e->clients, now_ns(e->scrape), e->scrape->deadline_ns);
	if (MHD_run(e->daemon) != MHD_YES)
		log_debug("scrape: a run of the HTTP server failed, ignoring");
	if (arm(e) < 0)
		log_debug("scrape: cannot set the timer, ignoring");
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	run_endpoint(userdata);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	run_endpoint(userdata);
	return 0;
}

/* ---- life ---- */

static int start_daemon(struct endpoint *e, int fd)
{
	e->daemon =
	    MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, e,
			     MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
			     MHD_OPTION_CONNECTION_LIMIT, (unsigned)CLIENTS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
			     CLIENT_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_NOTIFY_CONNECTION,
			     on_connection, e, MHD_OPTION_NOTIFY_COMPLETED, on_completed, e, MHD_OPTION_END);
	if (e->daemon)
		return 0;
	/* Its versions differ in whether they close the socket when they fail. */
	if (fcntl(fd, F_GETFD) >= 0)
		close_fd(fd);
	return -ENOMEM;
}

static int start_endpoint(struct endpoint *e, struct listener *l)
{
	sd_event *event = e->scrape->event;
	const union MHD_DaemonInfo *info;
	int r = start_daemon(e, take_fd(&l->fd)); /* the daemon closes it */

	if (r < 0)
		return r;
	info = MHD_get_daemon_info(e->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	r = sd_event_add_io(event, &e->io, info->epoll_fd, EPOLLIN, on_io, e);
	if (r < 0)
		return r;
	r = sd_event_add_time(event, &e->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, e);
	if (r < 0)
		return r;
	(void)sd_event_source_set_priority(e->io, SOURCE_PRIORITY);
	(void)sd_event_source_set_priority(e->timer, SOURCE_PRIORITY);
	return arm(e);
}

static void stop_endpoint(struct endpoint *e)
{
	e->io = sd_event_source_disable_unref(e->io);
	e->timer = sd_event_source_disable_unref(e->timer);
	if (e->daemon)
		MHD_stop_daemon(e->daemon);
	e->daemon = NULL;
}

static int start_endpoints(struct scrape *s)
{
	s->endpoints = calloc(s->listeners.count + 1, sizeof(*s->endpoints));
	if (!s->endpoints)
		return log_error_errno(ENOMEM, "scrape: out of memory");
	for (size_t i = 0; i < s->listeners.count; i++) {
		int r;

		s->endpoints[i].scrape = s;
		r = start_endpoint(&s->endpoints[i], &s->listeners.items[i]);
		if (r < 0)
			return log_error_errno(r, "scrape: cannot start the HTTP server on %s: %s",
					       s->listeners.items[i].address, strerror(-r));
	}
	return 0;
}

static void free_scrape_local(struct scrape **s)
{
	scrape_free(*s);
}

int scrape_new(sd_event *event, char *const *listen, size_t n_listen, uint32_t max_concurrent,
	       const struct scrape_handlers *handlers, struct scrape **ret)
{
	cleanup(free_scrape_local) struct scrape *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return log_error_errno(ENOMEM, "scrape: out of memory");
	s->event = sd_event_ref(event);
	s->handlers = *handlers;
	s->max_concurrent = max_concurrent;
	s->deadline_ns = DEADLINE_NS;
	for (size_t i = 0; i < n_listen; i++) {
		r = listeners_open(&s->listeners, listen[i]);
		if (r < 0)
			return r;
	}
	r = start_endpoints(s);
	if (r < 0)
		return r;
	*ret = take_ptr(s);
	return 0;
}

struct scrape *scrape_free(struct scrape *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; s->endpoints && i < s->listeners.count; i++)
		stop_endpoint(&s->endpoints[i]);
	free(s->endpoints);
	listeners_done(&s->listeners);
	sd_event_unref(s->event);
	free(s);
	return NULL;
}

void scrape_set_max_concurrent(struct scrape *s, uint32_t max_concurrent)
{
	s->max_concurrent = max_concurrent;
}

void scrape_set_deadline(struct scrape *s, uint64_t deadline_ns)
{
	s->deadline_ns = deadline_ns;
	for (size_t i = 0; i < s->listeners.count; i++)
		(void)arm(&s->endpoints[i]);
}

const char *scrape_address(const struct scrape *s, size_t at)
{
	return at < s->listeners.count ? s->listeners.items[at].address : NULL;
}
