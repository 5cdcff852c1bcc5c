/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's local socket, for faultctl: a unix stream socket whose peers ask one question each.
 *
 * Request: one line, at most CONTROL_LINE_MAX bytes: a verb and arguments `key=value`, separated by single spaces; in
 * values the bytes up to space, DEL and '%' are written as %XX. Answer: the line `ok` and then the body up to the end
 * of the stream, or one line `error TEXT`. Unknown verbs, keys and values are errors that say what is allowed.
 *
 *   crashes [since=UNIX_NS] [cgroup=GLOB] [follow=1] [format=text|json]
 *       The crashes in the history, oldest first, a line each; with follow=1 also those to come.
 *   bad cgroup=PATH
 *       Bad accesses of one cgroup since the daemon knows it, up to date. First a line `counted`, or `other` if this
 *       cgroup has no counters of its own now (excluded, over the limit, or it never faulted); then a line
 *       `signals SIGNAL...`, those that are counted at all, none if bad accesses are not; then lines `SIGNAL CODE
 *       OUTCOME COUNT`, only those that are not 0.
 *
 * Peers that read slowly cost a bounded amount of memory and then their connection: if they do not ask, or take nothing
 * of their answer, for CONTROL_PATIENCE_NS, or if they follow and the history forgets a crash that they did not take
 * yet. At most CONTROL_PEERS_MAX at a time, more get `error`. Nothing blocks. Who follows a history that keeps nothing
 * is told nothing.
 */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/base/clock.h"
#include "daemon/model/crash.h"
#include "daemon/model/snapshot.h"

#define CONTROL_LINE_MAX 8192
#define CONTROL_PEERS_MAX 16
#define CONTROL_PATIENCE_NS (10 * NSEC_PER_SEC)

struct control;

struct control_handlers {
	/* The oldest kept crash numbered above `after`, borrowed; NULL if none. */
	const struct crash *(*crash_next)(uint64_t after, void *userdata);
	/* The state of the world now; 0 or -errno. */
	int (*snapshot)(struct snapshot *ret, void *userdata);
	void *userdata;
};

/* Listens at `path` (a stale socket there is replaced, anything else is not), mode 0660, of group `group` (a name or
 * a number; "": the process' own). Addresses are shown unless `disclosure` is CRASH_ADDRESSES_NONE. -EINVAL: no
 * absolute path, -ENAMETOOLONG, -EADDRINUSE: somebody listens there or it is no socket, -ESRCH: there is no such
 * group, -EPERM: the socket may not be given to the group, -ENOENT: the folder is missing, -errno; logs nothing. */
int control_new(sd_event *event, const char *path, const char *group, enum crash_disclosure disclosure,
		const struct control_handlers *handlers, struct control **ret);
/* Removes the socket. Accepts NULL, returns NULL. */
struct control *control_free(struct control *c);
/* Instead of CONTROL_PATIENCE_NS, from now on. */
void control_set_patience(struct control *c, uint64_t ns);
void control_set_disclosure(struct control *c, enum crash_disclosure disclosure);
/* The history grew: tells those that follow. */
void control_crash_added(struct control *c);
