/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's local socket, for faultctl: a unix stream socket whose peers ask one question each.
 *
 * Request: one line, at most CONTROL_LINE_MAX bytes: a verb and arguments `key=value`, separated by single spaces; in values the bytes
 * up to space, DEL and '%' are written as %XX. Answer: the line `ok` and then the body up to the end of the stream, or one line
 * `error TEXT`. Unknown verbs, keys and values are errors that say what is allowed.
 *
 *   crashes [since=UNIX_NS] [cgroup=GLOB] [follow=1] [format=text|json]
 *       The crashes in the history, oldest first, a line each; with follow=1 also those to come.
 *   bad cgroup=PATH
 *       Bad accesses of one cgroup since the daemon knows it, up to date. First a line `counted`, or `other` if this cgroup has no
 *       counters of its own now (excluded, over the limit, or it never faulted); then a line `signals SIGNAL...`, those that are counted
 *       at all, none if bad accesses are not; then lines `SIGNAL CODE OUTCOME COUNT`, only those that are not 0.
 *
 * Peers that read slowly cost a bounded amount of memory and then their connection; at most CONTROL_PEERS_MAX at a time, more
 * get `error`. Nothing blocks.
 */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/model/crash.h"
#include "daemon/model/snapshot.h"

#define CONTROL_LINE_MAX 8192
#define CONTROL_PEERS_MAX 16

struct control;

struct control_handlers {
	/* The oldest kept crash numbered above `after`, borrowed; NULL if none. */
	const struct crash *(*crash_next)(uint64_t after, void *userdata);
	/* The state of the world now; 0 or -errno. */
	int (*snapshot)(struct snapshot *ret, void *userdata);
	void *userdata;
};

/* Listens at `path` (a stale socket there is replaced, anything else is not), mode 0660, of group `group` ("": the process' own). Addresses
 * are shown unless `disclosure` is CRASH_ADDRESSES_NONE. -errno; logs nothing. */
int control_new(sd_event *event, const char *path, const char *group, enum crash_disclosure disclosure,
		const struct control_handlers *handlers, struct control **ret);
/* Removes the socket. Accepts NULL, returns NULL. */
struct control *control_free(struct control *c);
void control_set_disclosure(struct control *c, enum crash_disclosure disclosure);
/* The history grew: tells those that follow. */
void control_crash_added(struct control *c);
