/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/control.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/base/cleanup.h"
#include "daemon/sink/control_peers.h"

#define BACKLOG 64
#define ACCEPTS_PER_TURN 16
/* A socket that cannot be accepted for want of descriptors or memory would wake the loop again and again. */
#define REST_NS NSEC_PER_SEC
#define NO_GROUP ((gid_t)-1)

struct control {
	int fd;
	char *path; /* what we made there and remove again; NULL before */
	dev_t path_dev;
	ino_t path_ino;
	sd_event_source *io;
	sd_event_source *rest; /* when accepting begins again */
	struct control_peers peers;
};

DEFINE_CLEANUP(control_local, struct control *, control_free)

/* ---- socket ---- */

static int parse_gid(const char *text, gid_t *ret)
{
	char *end;
	unsigned long gid;

	if (!*text || text[strspn(text, "0123456789")])
		return -ESRCH;
	errno = 0;
	gid = strtoul(text, &end, 10);
	if (errno || gid >= NO_GROUP)
		return -ESRCH;
	*ret = (gid_t)gid;
	return 0;
}

/* At the start only: the name service may block. */
static int find_group(const char *name, gid_t *ret)
{
	const struct group *group;

	*ret = NO_GROUP;
	if (!*name)
		return 0;
	errno = 0;
	group = getgrnam(name);
	if (!group)
		return parse_gid(name, ret);
	*ret = group->gr_gid;
	return 0;
}

/* True if the file is a socket that nobody accepts on any more. */
static bool is_stale(const struct sockaddr_un *a)
{
	auto_close int fd = -EBADF;
	struct stat st;

	if (lstat(a->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 && errno == ECONNREFUSED;
}

static int bind_path(int fd, const struct sockaddr_un *a)
{
	mode_t before = umask(0117);
	int r = bind(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 ? -errno : 0;

	umask(before);
	return r;
}

static int make_address(const char *path, struct sockaddr_un *ret)
{
	if (path[0] != '/')
		return -EINVAL;
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(ret->sun_path, path, strlen(path) + 1);
	return 0;
}

/* Nobody can connect before listen(), so at no time is it open to another group. */
static int open_socket(struct control *c, const struct sockaddr_un *a, gid_t group)
{
	struct stat st;
	int r;

	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return -errno;
	r = bind_path(c->fd, a);
	if (r == -EADDRINUSE && is_stale(a) && unlink(a->sun_path) == 0)
		r = bind_path(c->fd, a);
	if (r < 0)
		return r;
	if (lstat(a->sun_path, &st) < 0)
		return -errno;
	c->path = strdup(a->sun_path);
	c->path_dev = st.st_dev;
	c->path_ino = st.st_ino;
	if (!c->path) {
		(void)unlink(a->sun_path);
		return -ENOMEM;
	}
	if (group != NO_GROUP && lchown(c->path, (uid_t)-1, group) < 0)
		return -errno;
	return listen(c->fd, BACKLOG) < 0 ? -errno : 0;
}

/* A socket that another process put there since is not ours. */
static void remove_socket(struct control *c)
{
	struct stat st;

	if (c->path && lstat(c->path, &st) == 0 && st.st_dev == c->path_dev && st.st_ino == c->path_ino)
		(void)unlink(c->path);
	free(c->path);
}

/* ---- accepting ---- */

static int on_rest_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct control *c = userdata;

	(void)sd_event_source_set_enabled(c->io, SD_EVENT_ON);
	return 0;
}

static void rest(struct control *c)
{
	(void)sd_event_source_set_enabled(c->io, SD_EVENT_OFF);
	(void)sd_event_source_set_time(c->rest, (clock_monotonic_ns() + REST_NS) / NSEC_PER_USEC);
	(void)sd_event_source_set_enabled(c->rest, SD_EVENT_ONESHOT);
}

static int on_connection(sd_event_source *source, int listener, uint32_t events, void *userdata)
{
	struct control *c = userdata;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			control_peers_add(&c->peers, fd);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			if (errno != EAGAIN)
				rest(c);
			break;
		}
	}
	return 0;
}

/* ---- all ---- */

static int start(struct control *c, sd_event *event)
{
	int r = sd_event_add_io(event, &c->io, c->fd, EPOLLIN, on_connection, c);

	if (r >= 0)
		r = sd_event_add_time(event, &c->rest, CLOCK_MONOTONIC, 0, 0, on_rest_over, c);
	if (r >= 0)
		r = sd_event_source_set_enabled(c->rest, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

int control_new(sd_event *event, const char *path, const char *group, enum crash_disclosure disclosure,
		const struct control_handlers *handlers, struct control **ret)
{
	cleanup(control_local) struct control *c = calloc(1, sizeof(*c));
	struct sockaddr_un address;
	gid_t gid;
	int r;

	if (!c)
		return -ENOMEM;
	c->fd = -EBADF;
	c->peers = (struct control_peers){.event = event, .handlers = *handlers, .patience_ns = CONTROL_PATIENCE_NS};
	control_set_disclosure(c, disclosure);
	r = make_address(path, &address);
	if (r == 0)
		r = find_group(group, &gid);
	if (r == 0)
		r = open_socket(c, &address, gid);
	if (r == 0)
		r = start(c, event);
	if (r < 0)
		return r;
	*ret = take_ptr(c);
	return 0;
}

struct control *control_free(struct control *c)
{
	if (c) {
		control_peers_done(&c->peers);
		sd_event_source_disable_unref(c->io);
		sd_event_source_disable_unref(c->rest);
		close_fd(c->fd);
		remove_socket(c);
		free(c);
	}
	return NULL;
}

void control_set_patience(struct control *c, uint64_t ns)
{
	c->peers.patience_ns = ns;
}

void control_set_disclosure(struct control *c, enum crash_disclosure disclosure)
{
	c->peers.addresses = disclosure != CRASH_ADDRESSES_NONE;
}

void control_crash_added(struct control *c)
{
	control_peers_wake(&c->peers);
}
