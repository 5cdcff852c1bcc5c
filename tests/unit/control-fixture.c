/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/control-fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct crash *next_crash(uint64_t after, void *userdata)
{
	struct bench *b = userdata;

	return crash_history_next(b->history, after);
}

static int take_snapshot(struct snapshot *ret, void *userdata)
{
	struct bench *b = userdata;

	*ret = (struct snapshot){.aggregate = b->aggregate,
				 .bad_signals = 1u << BAD_SEGV | 1u << BAD_BUS | 1u << BAD_ABRT};
	return b->snapshot_error;
}

int make_bench(void **state)
{
	static const uint64_t windows[] = {10 * NSEC_PER_SEC};
	const struct aggregate_options options = {.max_cgroups = 20,
						  .max_ids = 100,
						  .interval_ns = NSEC_PER_SEC,
						  .windows_ns = windows,
						  .n_windows = 1,
						  .sinks = AGGREGATE_SINK_SCRAPE,
						  .linger_ns = NSEC_PER_SEC};
	struct bench *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	assert_int_equal(sd_event_new(&b->event), 0);
	assert_int_equal(crash_history_new(1000, &b->history), 0);
	assert_int_equal(aggregate_new(&options, &b->aggregate), 0);
	strcpy(b->folder, P_tmpdir "/test-control-XXXXXX");
	assert_non_null(mkdtemp(b->folder));
	snprintf(b->path, sizeof(b->path), "%s/control.sock", b->folder);
	b->handlers = (struct control_handlers){.crash_next = next_crash, .snapshot = take_snapshot, .userdata = b};
	assert_int_equal(control_new(b->event, b->path, "", CRASH_ADDRESSES_LOCAL, &b->handlers, &b->control), 0);
	*state = b;
	return 0;
}

int free_bench(void **state)
{
	struct bench *b = *state;

	control_free(b->control);
	assert_int_equal(access(b->path, F_OK), -1); /* what it made it took away */
	rmdir(b->folder);
	crash_history_free(b->history);
	aggregate_free(b->aggregate);
	sd_event_unref(b->event);
	free(b);
	return 0;
}

void add_crash(struct bench *b, const char *cgroup, const char *comm, unsigned seconds)
{
	struct crash_event e = crash_event_make();
	struct crash *c;

	snprintf(e.comm, sizeof(e.comm), "%s", comm);
	c = crash_in(cgroup, &e);
	c->time_unix_ns += seconds * NSEC_PER_SEC;
	crash_history_add(b->history, c);
	control_crash_added(b->control);
}

bool turn(struct bench *b, unsigned ms)
{
	int r = sd_event_run(b->event, ms * 1000);

	assert_true(r >= 0);
	return r > 0;
}

/* ---- peers ---- */

int dial(struct bench *b)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	strcpy(a.sun_path, b->path);
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		assert_int_equal(errno, EAGAIN); /* the queue is full */
		turn(b, 1000);
	}
	return fd;
}

void say(struct bench *b, int fd, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EPIPE)
			return; /* answered before it was all said */
		assert_true(n > 0 || errno == EAGAIN);
		if (n < 0)
			turn(b, 10);
		else
			text += n, len -= (size_t)n;
	}
}

void hear(struct bench *b, int fd, const char *until, struct strbuf *ret)
{
	uint64_t end_ns = clock_monotonic_ns() + 60 * NSEC_PER_SEC;
	char bytes[4096];
	ssize_t n;

	while (!until || !ret->data || !strstr(ret->data, until)) {
		assert_true(clock_monotonic_ns() < end_ns);
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n > 0) {
			strbuf_add(ret, bytes, (size_t)n);
		} else if (n == 0 || errno == ECONNRESET) { /* the latter if not all was heard */
			assert_null(until);
			break;
		} else {
			assert_int_equal(errno, EAGAIN);
			turn(b, 10);
		}
	}
	strbuf_add(ret, "", 0);
}

char *ask(struct bench *b, const char *request)
{
	struct strbuf answer = {0};
	int fd = dial(b);

	say(b, fd, request);
	hear(b, fd, NULL, &answer);
	close(fd);
	return strbuf_take(&answer);
}

size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}
