/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local socket in a folder of its own, with a history and an aggregate behind it, and peers in the same process.
 */
#pragma once

#include "daemon/base/strbuf.h"
#include "daemon/sink/control.h"
#include "tests/unit/crash-fixture.h"

struct bench {
	sd_event *event;
	char folder[40], path[80];
	struct crash_history *history;
	struct aggregate *aggregate;
	int snapshot_error;
	struct control_handlers handlers;
	struct control *control;
};

/* cmocka's setup and teardown: with a history of 1,000. */
int make_bench(void **state);
int free_bench(void **state);

/* A crash of this program in this cgroup, `seconds` after CRASH_TIME_NS; tells the server. */
void add_crash(struct bench *b, const char *cgroup, const char *comm, unsigned seconds);
/* One turn of the loop, at most `ms`; true if something happened. */
bool turn(struct bench *b, unsigned ms);

/* A connected peer; does not block. */
int dial(struct bench *b);
void say(struct bench *b, int fd, const char *text);
/* Reads until `until` was read (NULL: until the end of the stream) and runs the loop meanwhile. Fails after a
 * minute. */
void hear(struct bench *b, int fd, const char *until, struct strbuf *ret);
/* A whole conversation; the answer is to be freed. */
char *ask(struct bench *b, const char *request);
size_t count_lines(const char *text);
