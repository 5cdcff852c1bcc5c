/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/source/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/table.h"
#include "daemon/source/cgroup_walk.h"

#define CGROUP1_MAGIC 0x27e0eb
#define CGROUP2_MAGIC 0x63677270
/* exportfs' type of kernfs handles (since Linux 5.5): the id alone. */
#define HANDLE_TYPE_KERNFS 0xfe
#define ROOT_ID 1
#define DELETED " (deleted)"
/* Bounds the share of time that walks for unknown ids take: one cgroup costs some 10 us. */
#define WALK_PAUSE_PER_CGROUP_NS NSEC_PER_MSEC

/* A name in one of the two queues, oldest first. */
struct name {
	uint64_t id;
	char *path;
	bool dead;
	bool announced; /* then its death will be, too */
	uint64_t seen;  /* number of the last walk that met it */
	struct name *prev, *next;
};

struct queue {
	struct name *first, *last;
};

struct cgroup_names {
	int mount_fd;
	char *mount; /* as the kernel spells it, without '/' at the end; NULL if that is not known */
	bool handles;
	bool partial;  /* the mount's root is not the hierarchy's */
	char *outside; /* then: the kernel's path of what is mounted, NULL until it is learnt */
	/* Until then: the birth heard last, to be tried again at the next or when a name was looked up: the kernel tells of
	 * a birth before the cgroup can be looked up. The path is NULL if there is none. */
	uint64_t unplaced_id;
	char *unplaced_path;
	struct table *by_id;
	struct queue alive, dead;
	bool walked;
	uint64_t walk_ns, walk_pause_ns, walks;
};

/* ---- kept names ---- */

static struct queue *queue_of(struct cgroup_names *n, const struct name *name)
{
	return name->dead ? &n->dead : &n->alive;
}

static void enqueue(struct cgroup_names *n, struct name *name)
{
	struct queue *q = queue_of(n, name);

	name->prev = q->last;
	name->next = NULL;
	*(q->last ? &q->last->next : &q->first) = name;
	q->last = name;
}

static void dequeue(struct cgroup_names *n, struct name *name)
{
	struct queue *q = queue_of(n, name);

	*(name->prev ? &name->prev->next : &q->first) = name->next;
	*(name->next ? &name->next->prev : &q->last) = name->prev;
}

static void drop(struct cgroup_names *n, struct name *name)
{
	if (!name)
		return;
	dequeue(n, name);
	table_remove(n->by_id, name->id);
	free(name->path);
	free(name);
}

static void mark_dead(struct cgroup_names *n, struct name *name)
{
	if (name->dead)
		return;
	dequeue(n, name);
	name->dead = true;
	enqueue(n, name);
}

/* Keeps a name, the path is copied. What cannot be kept is found again when it is asked for. */
static struct name *keep(struct cgroup_names *n, uint64_t id, const char *path, size_t len)
{
	struct name *name = table_get(n->by_id, id);
	auto_free char *copy = strndup(path, len);

	if (!copy)
		return NULL;
	if (name) {
		free(name->path);
		name->path = take_ptr(copy);
		return name;
	}
	if (table_count(n->by_id) >= table_capacity(n->by_id))
		drop(n, n->dead.first ? n->dead.first : n->alive.first);
	name = calloc(1, sizeof(*name));
	if (!name)
		return NULL;
	*name = (struct name){.id = id, .seen = n->walks};
	if (table_put(n->by_id, id, name) < 0) {
		free(name);
		return NULL;
	}
	name->path = take_ptr(copy);
	enqueue(n, name);
	return name;
}

/* ---- by handle ---- */

/* A descriptor of the cgroup's folder, -ENOENT if it is gone, -EOPNOTSUPP if handles are of no use here, -errno. */
static int open_by_id(struct cgroup_names *n, uint64_t id)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + sizeof(id)];
	} u = {.handle = {.handle_bytes = sizeof(id), .handle_type = HANDLE_TYPE_KERNFS}};
	int fd;

	if (!n->handles)
		return -EOPNOTSUPP;
	memcpy(u.handle.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(n->mount_fd, &u.handle, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	switch (errno) {
	case ESTALE:
	case ENOENT:
		return -ENOENT;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case EINTR:
		return -errno;
	default:
		/* EPERM without CAP_DAC_READ_SEARCH, ENOSYS in a sandbox, EINVAL and so on: that does not change later.
		 */
		n->handles = false;
		return -EOPNOTSUPP;
	}
}

/* What /proc says about where a descriptor leads. */
static int read_link_of(int fd, char *buffer, size_t size)
{
	char proc[32];
	ssize_t len;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	len = readlink(proc, buffer, size - 1);
	if (len < 0)
		return -errno;
	if ((size_t)len >= size - 1)
		return -ENAMETOOLONG;
	buffer[len] = '\0';
	return 0;
}

static bool leads_to(const struct cgroup_names *n, const char *path, uint64_t id)
{
	struct stat st;
	const char *relative = path[1] ? path + 1 : ".";

	return fstatat(n->mount_fd, relative, &st, AT_SYMLINK_NOFOLLOW) == 0 && (uint64_t)st.st_ino == id;
}

/* Cuts the mount point off. A cgroup outside the mounted part of the tree has no name here: -ENOENT. */
static int strip_mount(const struct cgroup_names *n, char *link, char **ret)
{
	size_t len = strlen(n->mount);

	if (strncmp(link, n->mount, len) != 0 || (link[len] != '/' && link[len] != '\0'))
		return -ENOENT;
	*ret = link[len] ? link + len : strcpy(link, "/");
	return 0;
}

/* The path of an open cgroup in `link`, and whether it is still there. */
static int path_of(const struct cgroup_names *n, int fd, uint64_t id, char *link, size_t size, char **ret,
		   bool *ret_deleted)
{
	int r = read_link_of(fd, link, size);
	size_t len;

	if (r == 0)
		r = strip_mount(n, link, ret);
	if (r < 0)
		return r;
	len = strlen(*ret);
	/* A cgroup may be called so. */
	*ret_deleted =
	    len > strlen(DELETED) && strcmp(*ret + len - strlen(DELETED), DELETED) == 0 && !leads_to(n, *ret, id);
	if (*ret_deleted)
		(*ret)[len - strlen(DELETED)] = '\0';
	return 0;
}

/* 0, -ENOENT if there is no such cgroup (any more), -EOPNOTSUPP if this way cannot tell, -errno. */
static int find_by_handle(struct cgroup_names *n, uint64_t id, char **ret)
{
	int fd auto_close = open_by_id(n, id);
	char link[2 * PATH_MAX], *path;
	bool deleted;
	struct name *name;
	int r;

	if (fd < 0)
		return fd;
	r = path_of(n, fd, id, link, sizeof(link), &path, &deleted);
	if (r < 0)
		return r == -ENOENT || r == -ENOMEM ? r : -EOPNOTSUPP;
	name = keep(n, id, path, strlen(path));
	if (name && deleted)
		mark_dead(n, name);
	*ret = strdup(path);
	return *ret ? 0 : -ENOMEM;
}

/* ---- by walking ---- */

int cgroup_names_walk(struct cgroup_names *n, int (*visit)(uint64_t id, const char *path, void *userdata),
		      void *userdata)
{
	return cgroup_walk(n->mount_fd, visit, userdata, NULL);
}

/* A walk for an unknown id brings all names that there is room for. */
struct search {
	struct cgroup_names *names;
	uint64_t wanted;
	char *found;
};

static int note(uint64_t id, const char *path, void *userdata)
{
	struct search *s = userdata;
	struct cgroup_names *n = s->names;
	struct name *name = table_get(n->by_id, id);

	if (id == s->wanted && !s->found) {
		s->found = strdup(path);
		if (!s->found)
			return -ENOMEM;
	}
	if (!name && (id == s->wanted || n->dead.first || table_count(n->by_id) < table_capacity(n->by_id)))
		name = keep(n, id, path, strlen(path));
	if (name)
		name->seen = n->walks;
	return 0;
}

/* Names that a full walk did not meet are of dead cgroups: they give way first. */
static void bury_unseen(struct cgroup_names *n)
{
	for (struct name *name = n->alive.first, *next; name; name = next) {
		next = name->next;
		if (name->seen != n->walks && !name->announced)
			mark_dead(n, name);
	}
}

static int find_by_walk(struct cgroup_names *n, uint64_t id, uint64_t now_ns, char **ret)
{
	struct cgroup_walk_stats w;
	struct search s = {.names = n, .wanted = id};
	int r;

	if (n->walked && now_ns - n->walk_ns < n->walk_pause_ns)
		return -ENOENT;
	n->walked = true;
	n->walk_ns = now_ns;
	n->walks++;
	r = cgroup_walk(n->mount_fd, note, &s, &w);
	n->walk_pause_ns = w.visited * WALK_PAUSE_PER_CGROUP_NS;
	if (n->walk_pause_ns < NSEC_PER_SEC)
		n->walk_pause_ns = NSEC_PER_SEC;
	if (r == 0 && w.too_deep == 0 && w.unreadable == 0)
		bury_unseen(n);
	if (!s.found)
		return r < 0 ? r : -ENOENT;
	*ret = s.found;
	return 0;
}

/* ---- the module ---- */

/* Handles work on cgroup file systems only; elsewhere the kernel may take our id for something else. */
static bool is_cgroup_fs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == CGROUP1_MAGIC || fs.f_type == CGROUP2_MAGIC);
}

static int open_mount(struct cgroup_names *n, const char *mount)
{
	char link[PATH_MAX];
	struct stat st;

	n->mount_fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (n->mount_fd < 0 || fstat(n->mount_fd, &st) < 0)
		return -errno;
	if (!is_cgroup_fs(n->mount_fd))
		return 0;
	n->partial = st.st_ino != ROOT_ID;
	if (n->partial)
		log_notice("%s shows only a part of the cgroup tree (as in a cgroup namespace): cgroups outside it "
			   "have no names",
			   mount);
	if (read_link_of(n->mount_fd, link, sizeof(link)) < 0)
		return 0;
	n->mount = strdup(strcmp(link, "/") == 0 ? "" : link);
	n->handles = n->mount;
	return n->mount ? 0 : -ENOMEM;
}

DEFINE_CLEANUP(names_local, struct cgroup_names *, cgroup_names_free)

int cgroup_names_new(const char *mount, size_t capacity, struct cgroup_names **ret)
{
	struct cgroup_names *n cleanup(names_local) = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return -ENOMEM;
	n->mount_fd = -EBADF;
	r = open_mount(n, mount);
	if (r == 0)
		r = table_new(capacity ? capacity : 1, &n->by_id);
	if (r < 0)
		return r;
	*ret = take_ptr(n);
	return 0;
}

struct cgroup_names *cgroup_names_free(struct cgroup_names *n)
{
	if (n) {
		while (n->alive.first)
			drop(n, n->alive.first);
		while (n->dead.first)
			drop(n, n->dead.first);
		table_free(n->by_id);
		free(n->mount);
		free(n->outside);
		free(n->unplaced_path);
		close_fd(n->mount_fd);
		free(n);
	}
	return NULL;
}

/* Finds where the mounted part begins from a cgroup of it: what is left of the kernel's path leads to that very id. */
static void learn_outside(struct cgroup_names *n, uint64_t id, const char *path)
{
	for (const char *rest = path; !n->outside && (rest = strchr(rest + 1, '/'));)
		if (leads_to(n, rest, id))
			n->outside = strndup(path, (size_t)(rest - path));
}

static void learn_outside_from_unplaced(struct cgroup_names *n)
{
	if (!n->unplaced_path)
		return;
	learn_outside(n, n->unplaced_id, n->unplaced_path);
	if (n->outside)
		free(take_ptr(n->unplaced_path));
}

static void learn_outside_from_birth(struct cgroup_names *n, uint64_t id, const char *path, size_t len)
{
	auto_free char *whole = strndup(path, len);

	learn_outside_from_unplaced(n);
	if (!n->outside && whole)
		learn_outside(n, id, whole);
	if (n->outside || !whole)
		return;
	free(n->unplaced_path);
	n->unplaced_path = take_ptr(whole);
	n->unplaced_id = id;
}

/* Turns the kernel's path into that within the mount. False if it cannot, or the cgroup is not in there. */
static bool from_outside(struct cgroup_names *n, uint64_t id, const char **path, size_t *len)
{
	size_t outside;

	if (!n->partial)
		return true;
	if (!n->outside)
		learn_outside_from_birth(n, id, *path, *len);
	outside = n->outside ? strlen(n->outside) : SIZE_MAX;
	if (*len <= outside || memcmp(*path, n->outside, outside) != 0 || (*path)[outside] != '/')
		return false;
	*path += outside;
	*len -= outside;
	return true;
}

void cgroup_names_born(struct cgroup_names *n, uint64_t id, const char *path, size_t len, int cut)
{
	auto_free char *found = NULL;

	len = strnlen(path, len);
	if (!cut && len > 0 && path[0] == '/' && from_outside(n, id, &path, &len)) {
		struct name *name = keep(n, id, path, len);

		if (name)
			name->announced = true;
		return;
	}
	/* A former name is out of date by now; while the cgroup lives its handle tells the new one. */
	drop(n, table_get(n->by_id, id));
	if (find_by_handle(n, id, &found) == 0)
		learn_outside_from_unplaced(n);
}

/* `path` is below `folder`; what is left of it begins with '/'. */
static const char *below(const char *path, const char *folder, size_t len)
{
	return strncmp(path, folder, len) == 0 && path[len] == '/' ? path + len : NULL;
}

/* -ENOMEM */
static int change_prefix(struct name *name, const char *rest, const char *prefix)
{
	char *path;

	if (asprintf(&path, "%s%s", prefix, rest) < 0)
		return -ENOMEM;
	free(name->path);
	name->path = path;
	return 0;
}

void cgroup_names_renamed(struct cgroup_names *n, uint64_t id, const char *path, size_t len, int cut,
			  void (*changed)(uint64_t id, void *userdata), void *userdata)
{
	const struct name *name = table_get(n->by_id, id);
	auto_free char *old = name ? strdup(name->path) : NULL;
	const char *rest, *last;

	/* It may be what the mounted part is in. */
	free(take_ptr(n->outside));
	free(take_ptr(n->unplaced_path));
	cgroup_names_born(n, id, path, len, cut);
	name = table_get(n->by_id, id);
	last = name ? strrchr(name->path, '/') : NULL;
	for (struct name *each = n->alive.first, *next; each; each = next) {
		next = each->next;
		if (each == name)
			continue;
		rest = old ? below(each->path, old, strlen(old)) : NULL;
		if (rest && name && change_prefix(each, rest, name->path) == 0) {
			changed(each->id, userdata);
		} else if (rest || (!old && (!last || below(each->path, name->path, (size_t)(last - name->path))) &&
				    !leads_to(n, each->path, each->id))) {
			uint64_t lost = each->id;

			drop(n, each);
			changed(lost, userdata);
		}
	}
}

void cgroup_names_died(struct cgroup_names *n, uint64_t id)
{
	struct name *name = table_get(n->by_id, id);

	if (name)
		mark_dead(n, name);
}

void cgroup_names_forget(struct cgroup_names *n, uint64_t id)
{
	drop(n, table_get(n->by_id, id));
}

int cgroup_names_find(struct cgroup_names *n, uint64_t id, uint64_t now_ns, char **ret)
{
	const struct name *name = table_get(n->by_id, id);
	int r;

	if (name) {
		*ret = strdup(name->path);
		return *ret ? 0 : -ENOMEM;
	}
	r = find_by_handle(n, id, ret);
	if (r == -EOPNOTSUPP)
		r = find_by_walk(n, id, now_ns, ret);
	if (r == 0)
		learn_outside_from_unplaced(n);
	return r;
}

int cgroup_names_alive(struct cgroup_names *n, uint64_t id)
{
	const struct name *name = table_get(n->by_id, id);
	int fd auto_close = open_by_id(n, id);
	char link[2 * PATH_MAX], *path;
	bool deleted;

	if (fd >= 0)
		return path_of(n, fd, id, link, sizeof(link), &path, &deleted) < 0 || !deleted;
	if (fd != -EOPNOTSUPP)
		return fd == -ENOENT ? 0 : fd;
	/* Without its name nothing leads to it. */
	return name ? leads_to(n, name->path, id) : -ENODATA;
}
