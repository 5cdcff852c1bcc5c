/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Since 6.10 a kernel can tell by the lock of the one mapping that it does not allow an access. Whether this one does shows in how
 * often it takes the lock of the whole address space, which has a tracepoint. Counted in the process that makes the accesses.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/selftest_bodies.h"
#include "daemon/ctl/selftest_child.h"

#define EVENT "events/mmap_lock/mmap_lock_acquire_returned/id"
#define ROUNDS_BEFORE 10

static uint64_t event_id(struct witness *w)
{
	static const char *const files[] = {"/sys/kernel/tracing/" EVENT, "/sys/kernel/debug/tracing/" EVENT};
	char text[32] = "";
	int error = 0;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int fd auto_close = open(files[i], O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
			return strtoull(text, NULL, 10);
		error = error == EACCES ? error : errno;
	}
	witness_skip(w,
		     "no tracepoint mmap_lock:mmap_lock_acquire_returned (%s: %s); it needs tracefs at "
		     "/sys/kernel/tracing",
		     files[0], strerror(error));
}

static int open_counter(struct witness *w)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .config = event_id(w)};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		witness_skip(w, "perf_event_open: %s", strerror(errno));
	/* Acquisitions that succeeded, for reading. Where the event has no such fields, all are counted. */
	(void)ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "write == 0 && success == 1");
	return fd;
}

static uint64_t read_counter(struct witness *w, int fd)
{
	uint64_t n = 0;

	if (read(fd, &n, sizeof(n)) != (ssize_t)sizeof(n))
		witness_skip(w, "reading the counter: %s", strerror(errno));
	return n;
}

static char *denied;

static void touch_denied(struct witness *w)
{
	touch_read(denied);
}

static void touch_null(struct witness *w)
{
	touch_read(NULL);
}

static uint64_t acquisitions(struct witness *w, int fd, void (*body)(struct witness *w))
{
	uint64_t before;

	for (int i = 0; i < ROUNDS_BEFORE; i++)
		(void)witness_survives(w, body);
	before = read_counter(w, fd);
	for (int i = 0; i < BODY_LOCKS_ACCESSES; i++)
		if (!witness_survives(w, body))
			witness_problem(w, "an access raised no signal");
	return read_counter(w, fd) - before;
}

void body_locks(struct witness *w)
{
	int fd = open_counter(w);

	denied = map_pages(w, 1, PROT_NONE);
	witness_catch(SIGSEGV, witness_on_signal, 0);
	w->numbers[0] = acquisitions(w, fd, touch_denied);
	w->numbers[1] = acquisitions(w, fd, touch_null);
}
