/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ship-fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_true(sd_event_new(&w->event) >= 0);
	assert_int_equal(queue_new(4 << 20, &w->queue), 0);
	w->log = memfd_create("log", MFD_CLOEXEC);
	w->stderr_before = dup(STDERR_FILENO);
	assert_true(w->log >= 0 && w->stderr_before >= 0);
	dup2(w->log, STDERR_FILENO);
	*state = w;
	return 0;
}

const char *read_log(const struct world *w)
{
	static char text[16384];
	ssize_t n = pread(w->log, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

int tear_down(void **state)
{
	struct world *w = *state;

	ship_free(w->ship);
	if (w->serving)
		script_stop(&w->server);
	script_forget(&w->server);
	queue_free(w->queue);
	sd_event_unref(w->event);
	dup2(w->stderr_before, STDERR_FILENO);
	close(w->stderr_before);
	close(w->log);
	free(w);
	return 0;
}

void serve(struct world *w, const struct script_step *steps, size_t n)
{
	script_start(&w->server, steps, n, 0);
	w->serving = true;
}

struct ship_options options_for(const char *url)
{
	return (struct ship_options){
	    .endpoint = url,
	    .timeout_ns = 2 * NSEC_PER_SEC,
	    .gzip = 1,
	    .user_agent = "faultd/0.1.0",
	    .backoff_min_ns = 10 * NSEC_PER_MSEC,
	    .backoff_max_ns = 50 * NSEC_PER_MSEC,
	};
}

void make_ship_at(struct world *w, const char *url)
{
	struct ship_options o = options_for(url);

	assert_int_equal(ship_new(w->event, &o, w->queue, &w->self, &w->ship), 0);
}

const char *url_of(uint16_t port)
{
	static char url[64];

	snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/metrics", port);
	return url;
}

void make_ship(struct world *w)
{
	make_ship_at(w, url_of(w->server.port));
}

static void push_kind(struct world *w, enum queue_kind kind, char mark, size_t size)
{
	uint8_t *data = malloc(size);
	struct queue_dropped dropped;

	assert_non_null(data);
	memset(data, mark, size);
	assert_int_equal(queue_push(w->queue, kind, data, size, 10, clock_monotonic_ns(), &dropped), 0);
}

void push(struct world *w, char mark, size_t size)
{
	push_kind(w, QUEUE_METRICS, mark, size);
}

void push_logs(struct world *w, char mark, size_t size)
{
	push_kind(w, QUEUE_LOGS, mark, size);
}

void turn(struct world *w)
{
	assert_true(sd_event_run(w->event, 10000) >= 0);
}

void run_until_empty(struct world *w)
{
	RUN_UNTIL(w, queue_count(w->queue) == 0);
	assert_false(ship_busy(w->ship));
}

void push_and_run(struct world *w)
{
	push(w, 'a', 1000);
	ship_kick(w->ship);
	run_until_empty(w);
}

void assert_counts(const struct world *w, uint64_t sent, uint64_t retried, uint64_t rejected)
{
	assert_int_equal(w->self.ship_sent, sent);
	assert_int_equal(w->self.ship_retried, retried);
	assert_int_equal(w->self.ship_rejected, rejected);
}

static size_t occurrences(const char *text, const char *part)
{
	size_t n = 0;

	for (; (text = strstr(text, part)); text++)
		n++;
	return n;
}

void assert_logged(const struct world *w, size_t times, const char *part)
{
	if (occurrences(read_log(w), part) != times)
		fail_msg("\"%s\" is not %zu times in the log: %s", part, times, read_log(w));
}

const char *header(const struct script_request *r, const char *name)
{
	static char value[256];
	const char *line = r->head;
	size_t len = strlen(name);

	while ((line = strstr(line, "\r\n"))) {
		line += 2;
		if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
			line += len + 1;
			line += strspn(line, " ");
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(line, "\r"), line);
			return value;
		}
	}
	return NULL;
}

size_t unpack(const struct script_request *r, uint8_t *out, size_t size)
{
	z_stream z = {.next_in = r->body, .avail_in = (uInt)r->body_len, .next_out = out, .avail_out = (uInt)size};

	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK); /* 16: gzip */
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	return z.total_out;
}
