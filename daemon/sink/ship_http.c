/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl tells which descriptors and which time it waits for; these hang on the event loop as sources. libcurl is
 * called from their handlers and from the functions of the header, never from inside its own callbacks, which only note
 * things.
 */
#include "daemon/sink/ship_http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/strbuf.h"

/* Of an answer's body this much is kept; a server that goes on for longer is hung up on. */
#define BODY_KEPT_BYTES ((size_t)64 << 10)
#define BODY_MAX_BYTES ((size_t)1 << 20)
/* libcurl ends a request that takes too long; should it ever not, we do, a little later. */
#define BACKSTOP_NS (5 * NSEC_PER_SEC)
#define TIMER_ACCURACY_USEC 1000

/* A descriptor that libcurl waits for. */
struct watch {
	struct watch *next;
	sd_event_source *source;
};

struct answer {
	bool head_complete;
	char retry_after[64];
	struct strbuf body; /* the first BODY_KEPT_BYTES */
	size_t body_bytes;  /* all of it */
};

struct ship_http {
	sd_event *event;
	ship_http_done done;
	void *userdata;
	uint64_t timeout_ns;
	bool global; /* libcurl is initialized */
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers, *headers_gzip;
	struct watch *watches;
	sd_event_source *curl_timer, *backstop;
	bool busy;
	struct answer answer;
	char error[CURL_ERROR_SIZE];
	char text[512];
};

static int arm(sd_event_source *timer, uint64_t delay_ns)
{
	int r = sd_event_source_set_time(timer, (clock_monotonic_ns() + delay_ns) / NSEC_PER_USEC);

	return r < 0 ? r : sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

/* ---- how a request ended, in plain words ---- */

static void describe_connect(struct ship_http *h)
{
	long error = 0;

	(void)curl_easy_getinfo(h->easy, CURLINFO_OS_ERRNO, &error);
	snprintf(h->text, sizeof(h->text), "%s",
		 error == ECONNREFUSED ? "connection refused: nothing listens there"
		 : error > 0           ? strerror((int)error)
				       : "no connection");
}

static void describe_timeout(struct ship_http *h)
{
	curl_off_t connected_usec = 0;

	(void)curl_easy_getinfo(h->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_usec);
	snprintf(h->text, sizeof(h->text), "no %s within %.1f s", connected_usec > 0 ? "answer" : "connection",
		 (double)h->timeout_ns / (double)NSEC_PER_SEC);
}

static void describe(struct ship_http *h, const char *what, CURLcode code)
{
	snprintf(h->text, sizeof(h->text), "%s (%s)", what, h->error[0] ? h->error : curl_easy_strerror(code));
}

static enum ship_trouble describe_failure(struct ship_http *h, CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		describe(h, "the name does not resolve", code);
		return SHIP_TROUBLE_NAME;
	case CURLE_COULDNT_CONNECT:
		describe_connect(h);
		return SHIP_TROUBLE_CONNECTION;
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_PARTIAL_FILE:
		describe(h, "the connection broke before there was an answer", code);
		return SHIP_TROUBLE_CONNECTION;
	case CURLE_OPERATION_TIMEDOUT:
		describe_timeout(h);
		return SHIP_TROUBLE_TIMEOUT;
	case CURLE_PEER_FAILED_VERIFICATION:
		describe(h, "TLS failure, the receiver's certificate is not trusted", code);
		return SHIP_TROUBLE_TLS;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		describe(h, "TLS failure", code);
		return SHIP_TROUBLE_TLS;
	case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9, which is what anything else looks like */
	case CURLE_WEIRD_SERVER_REPLY:
		describe(h, "the answer is not HTTP", code);
		return SHIP_TROUBLE_NOT_HTTP;
	default:
		describe(h, "the request failed", code);
		return SHIP_TROUBLE_OTHER;
	}
}

static const char *content_type(const struct ship_http *h)
{
	char *type = NULL;

	return curl_easy_getinfo(h->easy, CURLINFO_CONTENT_TYPE, &type) == CURLE_OK && type ? type : "";
}

static bool is_readable(const char *type)
{
	return strncasecmp(type, "text/plain", 10) == 0 || strncasecmp(type, "application/json", 16) == 0;
}

static bool may_be_protobuf(const char *type)
{
	return !*type || strncasecmp(type, "application/x-protobuf", 22) == 0;
}

/* Where a redirect points to, or the first line of a readable body. */
static void describe_answer(struct ship_http *h)
{
	const struct strbuf *body = &h->answer.body;
	char *target = NULL;

	h->text[0] = '\0';
	if (curl_easy_getinfo(h->easy, CURLINFO_REDIRECT_URL, &target) == CURLE_OK && target)
		snprintf(h->text, sizeof(h->text), "it points to %.*s", (int)strcspn(target, "?#"), target);
	else if (body->len && is_readable(content_type(h)))
		snprintf(h->text, sizeof(h->text), "it says: %.*s", (int)strcspn(body->data, "\r\n"), body->data);
}

static void end_request(struct ship_http *h, CURLcode code)
{
	struct ship_http_result result = {.text = h->text, .retry_after = h->answer.retry_after};
	struct answer *a = &h->answer;

	(void)curl_multi_remove_handle(h->multi, h->easy);
	(void)sd_event_source_set_enabled(h->backstop, SD_EVENT_OFF);
	h->busy = false;
	if (a->head_complete && curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &result.status) != CURLE_OK)
		result.status = 0;
	if (result.status)
		describe_answer(h);
	else
		result.trouble = describe_failure(h, code);
	if (may_be_protobuf(content_type(h)) && a->body.len == a->body_bytes) {
		result.body = (const uint8_t *)a->body.data;
		result.body_len = a->body.len;
	}
	h->done(&result, h->userdata);
}

/* ---- libcurl on the event loop ---- */

/* Hands an event to libcurl and looks whether the request ended by it. */
static void drive(struct ship_http *h, curl_socket_t fd, int events)
{
	CURLcode code = CURLE_OK;
	bool ended = false;
	CURLMsg *message;
	int running, left;

	if (curl_multi_socket_action(h->multi, fd, events, &running) != CURLM_OK) {
		ended = true;
		code = CURLE_FAILED_INIT;
	}
	while ((message = curl_multi_info_read(h->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		code = message->data.result; /* the message dies with the next call */
		ended = true;
	}
	if (ended && h->busy)
		end_request(h, code);
}

static int on_socket(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	int events = 0;

	if (revents & (EPOLLIN | EPOLLHUP))
		events |= CURL_CSELECT_IN;
	if (revents & EPOLLOUT)
		events |= CURL_CSELECT_OUT;
	if (revents & EPOLLERR)
		events |= CURL_CSELECT_ERR;
	drive(userdata, fd, events);
	return 0;
}

static int on_curl_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	drive(userdata, CURL_SOCKET_TIMEOUT, 0);
	return 0;
}

static int on_backstop(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct ship_http *h = userdata;

	if (h->busy)
		end_request(h, CURLE_OPERATION_TIMEDOUT);
	return 0;
}

static int curl_wants_time(CURLM *multi, long timeout_ms, void *userdata)
{
	struct ship_http *h = userdata;

	if (timeout_ms < 0)
		(void)sd_event_source_set_enabled(h->curl_timer, SD_EVENT_OFF);
	else
		(void)arm(h->curl_timer, (uint64_t)timeout_ms * NSEC_PER_MSEC);
	return 0; /* anything else makes the multi handle useless for ever; for the worst case there is the backstop */
}

static void unwatch(struct ship_http *h, struct watch *w)
{
	struct watch **at = &h->watches;

	while (*at && *at != w)
		at = &(*at)->next;
	if (*at)
		*at = w->next;
	sd_event_source_disable_unref(w->source);
	free(w);
}

static void watch(struct ship_http *h, curl_socket_t fd, uint32_t events)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return;
	if (sd_event_add_io(h->event, &w->source, fd, events, on_socket, h) < 0) {
		free(w);
		return;
	}
	w->next = h->watches;
	h->watches = w;
	(void)curl_multi_assign(h->multi, fd, w);
}

/* A descriptor that cannot be watched makes the request time out, which is retried like any other time-out. */
static int curl_wants_socket(CURL *easy, curl_socket_t fd, int what, void *userdata, void *assigned)
{
	struct ship_http *h = userdata;
	struct watch *w = assigned;
	uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);

	if (what == CURL_POLL_REMOVE) {
		if (w)
			unwatch(h, w);
	} else if (w) {
		(void)sd_event_source_set_io_events(w->source, events);
	} else {
		watch(h, fd, events);
	}
	return 0;
}

/* ---- the answer as it comes ---- */

static void forget_answer(struct answer *a)
{
	strbuf_reset(&a->body);
	a->body_bytes = 0;
	a->retry_after[0] = '\0';
	a->head_complete = false;
}

static void note_header(struct answer *a, const char *line, size_t len)
{
	static const char name[] = "Retry-After:";
	size_t skip = sizeof(name) - 1;

	if (len < skip || strncasecmp(line, name, skip) != 0)
		return;
	while (len > skip && strchr("\r\n \t", line[len - 1]))
		len--;
	while (skip < len && (line[skip] == ' ' || line[skip] == '\t'))
		skip++;
	if (len - skip >= sizeof(a->retry_after))
		return;
	memcpy(a->retry_after, line + skip, len - skip);
	a->retry_after[len - skip] = '\0';
}

static size_t curl_has_header(char *line, size_t size, size_t n, void *userdata)
{
	struct ship_http *h = userdata;
	long status = 0;

	if (n >= 5 && strncasecmp(line, "HTTP/", 5) == 0)
		forget_answer(&h->answer); /* what came before was an interim answer, 1xx */
	else if (n > 0 && line[0] != '\r' && line[0] != '\n')
		note_header(&h->answer, line, n);
	else if (curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK && status >= 200)
		h->answer.head_complete = true;
	return n;
}

static size_t curl_has_body(char *data, size_t size, size_t n, void *userdata)
{
	struct answer *a = &((struct ship_http *)userdata)->answer;
	size_t room = BODY_KEPT_BYTES - a->body.len;

	a->body_bytes += n;
	strbuf_add(&a->body, data, n < room ? n : room);
	return a->body_bytes <= BODY_MAX_BYTES ? n : 0;
}

/* ---- life ---- */

static int append_header(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = curl_slist_append(*list, line);

	if (!longer)
		return -ENOMEM;
	*list = longer;
	return 0;
}

static int append_user_header(struct curl_slist **list, const struct ship_header *header)
{
	auto_free char *line = NULL;

	if (!ship_header_valid(header->name, header->value))
		return -EINVAL;
	/* libcurl sends a header without a value only when it ends in a semicolon. */
	if (asprintf(&line, header->value[0] ? "%s: %s" : "%s;", header->name, header->value) < 0) {
		line = NULL;
		return -ENOMEM;
	}
	return append_header(list, line);
}

static int make_headers(const struct ship_options *o, bool gzip, struct curl_slist **list)
{
	int r = append_header(list, "Content-Type: application/x-protobuf");

	/* libcurl would ask for leave before a large body and wait a second for those who do not answer. */
	if (r == 0)
		r = append_header(list, "Expect:");
	if (r == 0 && gzip)
		r = append_header(list, "Content-Encoding: gzip");
	for (size_t at = 0; r == 0 && at < o->n_headers; at++)
		r = append_user_header(list, &o->headers[at]);
	return r;
}

#define SET(handle, option, value)                                             \
	do {                                                                   \
		if (curl_easy_setopt((handle), (option), (value)) != CURLE_OK) \
			return -ENOMEM;                                        \
	} while (0)

static int set_security(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	SET(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
#if LIBCURL_VERSION_NUM >= 0x074000
	SET(easy, CURLOPT_HTTP09_ALLOWED, 0L);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A look-up by a resolver that hangs is left to its thread. Without this option (before 7.87) giving up on a
	 * request waits for as long as the resolver does. A library older than our headers refuses it: no matter. */
	(void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
	SET(easy, CURLOPT_FOLLOWLOCATION, 0L);
	SET(easy, CURLOPT_NOSIGNAL, 1L);
	return 0;
}

static int set_options(struct ship_http *h, const struct ship_options *o)
{
	long timeout_ms = (long)(o->timeout_ns / NSEC_PER_MSEC);
	int r = set_security(h->easy);

	if (r < 0)
		return r;
	SET(h->easy, CURLOPT_POST, 1L);
	SET(h->easy, CURLOPT_HTTP_VERSION,
	    (long)CURL_HTTP_VERSION_1_1); /* one request at a time gains nothing from 2 */
	SET(h->easy, CURLOPT_TIMEOUT_MS, timeout_ms > 0 ? timeout_ms : 1L); /* 0 would be for ever */
	SET(h->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	SET(h->easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* a proxy's answer to CONNECT is not the receiver's */
	SET(h->easy, CURLOPT_USERAGENT, o->user_agent);
	SET(h->easy, CURLOPT_ERRORBUFFER, h->error);
	SET(h->easy, CURLOPT_HEADERFUNCTION, curl_has_header);
	SET(h->easy, CURLOPT_HEADERDATA, h);
	SET(h->easy, CURLOPT_WRITEFUNCTION, curl_has_body);
	SET(h->easy, CURLOPT_WRITEDATA, h);
	if (curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, curl_wants_socket) != CURLM_OK ||
	    curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h) != CURLM_OK ||
	    curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, curl_wants_time) != CURLM_OK ||
	    curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h) != CURLM_OK)
		return -ENOMEM;
	return 0;
}

static int make_timer(struct ship_http *h, sd_event_time_handler_t handler, sd_event_source **ret)
{
	int r = sd_event_add_time(h->event, ret, CLOCK_MONOTONIC, UINT64_MAX, TIMER_ACCURACY_USEC, handler, h);

	return r < 0 ? r : sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

static int set_up(struct ship_http *h, const struct ship_options *o)
{
	int r;

	h->global = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
	if (!h->global)
		return -ENOMEM;
	h->multi = curl_multi_init();
	h->easy = curl_easy_init();
	if (!h->multi || !h->easy)
		return -ENOMEM;
	r = make_headers(o, false, &h->headers);
	if (r == 0)
		r = make_headers(o, true, &h->headers_gzip);
	if (r == 0)
		r = make_timer(h, on_curl_timer, &h->curl_timer);
	if (r >= 0)
		r = make_timer(h, on_backstop, &h->backstop);
	return r < 0 ? r : set_options(h, o);
}

int ship_http_new(sd_event *event, const struct ship_options *options, ship_http_done done, void *userdata,
		  struct ship_http **ret)
{
	struct ship_http *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	h->event = sd_event_ref(event);
	h->done = done;
	h->userdata = userdata;
	h->timeout_ns = options->timeout_ns;
	r = set_up(h, options);
	if (r < 0) {
		ship_http_free(h);
		return r;
	}
	*ret = h;
	return 0;
}

struct ship_http *ship_http_free(struct ship_http *h)
{
	if (!h)
		return NULL;
	if (h->busy)
		(void)curl_multi_remove_handle(h->multi, h->easy);
	/* The connection goes with the multi handle, which may still report its end: the sources go last. */
	curl_easy_cleanup(h->easy);
	if (h->multi)
		(void)curl_multi_cleanup(h->multi);
	while (h->watches)
		unwatch(h, h->watches);
	sd_event_source_disable_unref(h->curl_timer);
	sd_event_source_disable_unref(h->backstop);
	sd_event_unref(h->event);
	curl_slist_free_all(h->headers);
	curl_slist_free_all(h->headers_gzip);
	strbuf_done(&h->answer.body);
	if (h->global)
		curl_global_cleanup();
	free(h);
	return NULL;
}

int ship_http_post(struct ship_http *h, const char *url, const uint8_t *body, size_t len, bool compressed)
{
	int r;

	if (h->busy)
		return -EBUSY;
	forget_answer(&h->answer);
	h->error[0] = '\0';
	SET(h->easy, CURLOPT_URL, url);
	SET(h->easy, CURLOPT_HTTPHEADER, compressed ? h->headers_gzip : h->headers);
	SET(h->easy, CURLOPT_POSTFIELDS, (const char *)body);
	SET(h->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
	r = arm(h->backstop, h->timeout_ns + BACKSTOP_NS);
	if (r < 0)
		return r;
	h->busy = true;
	if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK) {
		h->busy = false;
		(void)sd_event_source_set_enabled(h->backstop, SD_EVENT_OFF);
		return -ENOMEM;
	}
	return 0;
}

bool ship_http_busy(const struct ship_http *h)
{
	return h->busy;
}
