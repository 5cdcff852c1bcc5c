/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/control_peers.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/glob.h"
#include "daemon/base/strbuf.h"
#include "daemon/sink/control_request.h"
#include "daemon/sink/crash_line.h"

/* So much is rendered ahead of what the socket takes. */
#define CHUNK_BYTES (16 << 10)
/* Work on one peer in a turn of the loop: matching a glob takes time by the product of the lengths, which the peer
 * chooses. */
#define STEPS_PER_TURN (2u << 20)
#define STEPS_PER_LOOK 1000

struct control_peer {
	struct control_peers *peers;
	int fd;
	sd_event_source *io;
	sd_event_source *timer; /* until when the peer must have asked, or read something */
	char line[CONTROL_LINE_MAX + 1];
	size_t line_len;
	bool has_asked;
	struct control_request request;
	uint64_t after;   /* number of the last crash that was looked at */
	bool has_looked;  /* there was one */
	bool is_answered; /* all of the answer is in `out` */
	struct strbuf out;
	size_t sent; /* bytes of `out` */
};

static size_t pending(const struct control_peer *p)
{
	return p->out.len - p->sent;
}

static void drop(struct control_peer *p)
{
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++)
		if (p->peers->peers[i] == p)
			p->peers->peers[i] = NULL;
	sd_event_source_disable_unref(p->io);
	sd_event_source_disable_unref(p->timer);
	if (p->fd >= 0)
		/* What stays unread would turn the end of the answer into a broken connection. */
		(void)recv(p->fd, p->line, sizeof(p->line), MSG_DONTWAIT);
	close_fd(p->fd);
	strbuf_done(&p->out);
	free(p);
}

/* ---- what is asked ---- */

static bool is_wanted(const struct control_peer *p, const struct crash *c)
{
	return c->time_unix_ns >= p->request.since_unix_ns &&
	       (!p->request.cgroup || glob_match(p->request.cgroup, c->identity->path));
}

static void put_crash(struct control_peer *p, const struct crash *c)
{
	(p->request.json ? crash_line_json : crash_line_text)(c, p->peers->addresses, &p->out);
}

static size_t steps_to_look(const struct control_peer *p, const struct crash *c)
{
	return STEPS_PER_LOOK + (p->request.cgroup ? strlen(p->request.cgroup) * strlen(c->identity->path) : 0);
}

/* Renders crashes until enough are ahead. -EPIPE: the history has forgotten what a follower had not read yet. */
static int fill_crashes(struct control_peer *p)
{
	const struct control_handlers *h = &p->peers->handlers;
	size_t steps = 0;

	/* All of `out`, what was sent of it as well: it is emptied when all was sent. */
	while (steps < STEPS_PER_TURN && p->out.len < CHUNK_BYTES) {
		const struct crash *c = h->crash_next(p->after, h->userdata);

		if (!c) {
			p->is_answered = !p->request.follow;
			break;
		}
		if (p->request.follow && p->has_looked && c->number != p->after + 1)
			return -EPIPE;
		p->after = c->number;
		p->has_looked = true;
		steps += steps_to_look(p, c);
		if (is_wanted(p, c))
			put_crash(p, c);
	}
	return strbuf_error(&p->out);
}

/* Whether nothing is to be done until a crash comes. */
static bool is_idle(const struct control_peer *p)
{
	const struct control_handlers *h = &p->peers->handlers;

	return pending(p) == 0 && p->request.follow && !h->crash_next(p->after, h->userdata);
}

static const struct cgroup_entry *find_cgroup(const struct aggregate *a, const char *path)
{
	/* Entry 0 is `other`. */
	for (size_t at = 1; at < aggregate_size(a); at++) {
		const struct cgroup_entry *e = aggregate_entry(a, at);

		if (e && (strcmp(e->identity->path, path) == 0 || strcmp(e->identity->label, path) == 0))
			return e;
	}
	return NULL;
}

static void put_counts(const struct bad_counts *counts, struct strbuf *out)
{
	for (uint32_t class = 0; class < BAD_CLASSES; class ++)
		for (enum bad_outcome o = 0; o < BAD_OUTCOMES; o++) {
			const struct bad_class names = bad_class_names(class);

			if (counts->count[o][class])
				strbuf_addf(out, "%s %s %s %" PRIu64 "\n", names.signal, names.code,
					    bad_outcome_name(o), counts->count[o][class]);
		}
}

static void answer_error(struct control_peer *p, const char *text)
{
	strbuf_addf(&p->out, "error %s\n", text);
	p->is_answered = true;
}

static void answer_bad(struct control_peer *p)
{
	const struct control_handlers *h = &p->peers->handlers;
	const struct cgroup_entry *e;
	struct snapshot snapshot;
	int r = h->snapshot(&snapshot, h->userdata);

	if (r < 0) {
		answer_error(p, strerror(-r));
		return;
	}
	e = find_cgroup(snapshot.aggregate, p->request.cgroup);
	strbuf_adds(&p->out, e ? "ok\ncounted\nsignals" : "ok\nother\nsignals");
	for (uint32_t signal = 0; signal < BAD_SIGNALS; signal++)
		if (snapshot.bad_signals & 1u << signal)
			strbuf_addf(&p->out, " %s", bad_signal_name(signal));
	strbuf_addc(&p->out, '\n');
	if (e && e->bad)
		put_counts(e->bad, &p->out);
	p->is_answered = true;
}

/* ---- I/O ---- */

static void arm(struct control_peer *p)
{
	uint64_t at_ns = clock_monotonic_ns() + p->peers->patience_ns;

	(void)sd_event_source_set_time(p->timer, at_ns / NSEC_PER_USEC);
	(void)sd_event_source_set_enabled(p->timer, SD_EVENT_ONESHOT);
}

/* Waits until the socket takes more, or for a crash or for the peer to go. */
static void wait_for_peer(struct control_peer *p)
{
	bool idle = is_idle(p);

	(void)sd_event_source_set_io_events(p->io, idle ? 0 : EPOLLOUT);
	if (idle)
		(void)sd_event_source_set_enabled(p->timer, SD_EVENT_OFF);
}

/* Returns 0, or -errno if the connection is broken. */
static int send_pending(struct control_peer *p)
{
	ssize_t n;

	if (pending(p) == 0)
		return 0;
	n = send(p->fd, p->out.data + p->sent, pending(p), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	p->sent += (size_t)n;
	if (pending(p) == 0) {
		strbuf_reset(&p->out);
		p->sent = 0;
	}
	arm(p);
	return 0;
}

/* One piece of the answer. */
static void pump(struct control_peer *p)
{
	int r = pending(p) == 0 && !p->is_answered ? fill_crashes(p) : strbuf_error(&p->out);

	if (r == 0)
		r = send_pending(p);
	if (r < 0 || (p->is_answered && pending(p) == 0))
		drop(p);
	else
		wait_for_peer(p);
}

static void answer(struct control_peer *p, const char *wrong)
{
	p->has_asked = true;
	if (wrong)
		answer_error(p, wrong);
	else if (p->request.verb == CONTROL_BAD)
		answer_bad(p);
	else
		strbuf_adds(&p->out, "ok\n");
	arm(p);
	pump(p);
}

static void hear(struct control_peer *p)
{
	ssize_t n = recv(p->fd, p->line + p->line_len, CONTROL_LINE_MAX - p->line_len, MSG_DONTWAIT);
	const char *end;

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			drop(p);
		return;
	}
	if (n == 0) {
		answer(p, "the request has no line end");
		return;
	}
	p->line_len += (size_t)n;
	end = memchr(p->line, '\n', p->line_len);
	if (end)
		answer(p, control_request_parse(p->line, (size_t)(end - p->line), &p->request));
	else if (p->line_len == CONTROL_LINE_MAX)
		answer(p, "the request is too long: at most 8192 bytes with its line end");
}

static int on_io(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct control_peer *p = userdata;

	if (events & (EPOLLHUP | EPOLLERR))
		drop(p);
	else if (p->has_asked)
		pump(p);
	else
		hear(p);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	drop(userdata);
	return 0;
}

/* ---- peers ---- */

static struct control_peer **find_room(struct control_peers *p)
{
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++)
		if (!p->peers[i])
			return &p->peers[i];
	return NULL;
}

static int start(struct control_peer *p)
{
	uint64_t at_ns = clock_monotonic_ns() + p->peers->patience_ns;
	int r = sd_event_add_io(p->peers->event, &p->io, p->fd, EPOLLIN, on_io, p);

	if (r < 0)
		return r;
	return sd_event_add_time(p->peers->event, &p->timer, CLOCK_MONOTONIC, at_ns / NSEC_PER_USEC, 0, on_timer, p);
}

void control_peers_add(struct control_peers *p, int fd)
{
	static const char busy[] = "error too many connections at once: try again later\n";
	struct control_peer **room = find_room(p), *peer = room ? calloc(1, sizeof(*peer)) : NULL;

	if (!peer) {
		(void)send(fd, busy, strlen(busy), MSG_NOSIGNAL | MSG_DONTWAIT);
		close_fd(fd);
		return;
	}
	peer->peers = p;
	peer->fd = fd;
	*room = peer;
	if (start(peer) < 0)
		drop(peer);
}

/* At once, as long as the crash is in the history for sure. */
static void wake(struct control_peer *p)
{
	bool was_idle = pending(p) == 0;

	if (fill_crashes(p) < 0) {
		drop(p);
		return;
	}
	if (was_idle && pending(p) > 0)
		arm(p);
	wait_for_peer(p);
}

void control_peers_wake(struct control_peers *p)
{
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++) {
		struct control_peer *peer = p->peers[i];

		/* The others come by themselves. */
		if (peer && peer->has_asked && !peer->is_answered)
			wake(peer);
	}
}

void control_peers_done(struct control_peers *p)
{
	for (size_t i = 0; i < CONTROL_PEERS_MAX; i++)
		if (p->peers[i])
			drop(p->peers[i]);
}
