/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/source/cgroup_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/base/strbuf.h"

/* With the leading '/': openat() takes one byte less than PATH_MAX, and the '/' is not handed to it. */
#define PATH_LEN_MAX PATH_MAX

/* Folders that wait for their visit, as a stack in one buffer: name, then a trailer. Depth costs neither C stack nor
 * descriptors. */
struct trailer {
	uint32_t parent_len, name_len;
};

struct walk {
	int root_fd;
	struct strbuf waiting;
	char path[PATH_LEN_MAX + 1]; /* of the folder that is visited */
	size_t path_len;             /* 0 for the root */
	struct cgroup_walk_stats stats;
};

static void close_folder(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static void walk_done(struct walk *w)
{
	strbuf_done(&w->waiting);
}

static int push(struct walk *w, const char *name)
{
	struct trailer t = {.parent_len = (uint32_t)w->path_len, .name_len = (uint32_t)strlen(name)};

	if (w->path_len + 1 + t.name_len > PATH_LEN_MAX) {
		w->stats.too_deep++;
		return 0;
	}
	strbuf_add(&w->waiting, name, t.name_len);
	strbuf_add(&w->waiting, &t, sizeof(t));
	return strbuf_error(&w->waiting);
}

/* Makes the folder that waits on top the current one. What is above a parent is visited before the parent's other
 * children, so the beginning of the path is still the parent's. */
static void pop(struct walk *w)
{
	struct trailer t;

	w->waiting.len -= sizeof(t);
	memcpy(&t, w->waiting.data + w->waiting.len, sizeof(t));
	w->waiting.len -= t.name_len;
	w->path[t.parent_len] = '/';
	memcpy(w->path + t.parent_len + 1, w->waiting.data + w->waiting.len, t.name_len);
	w->path_len = t.parent_len + 1 + t.name_len;
	w->path[w->path_len] = '\0';
}

/* Queues the folders in the current one. -ENOMEM; what is gone meanwhile or cannot be read has no children. */
static int push_children(struct walk *w, const char *relative)
{
	int fd auto_close = openat(w->root_fd, relative, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir cleanup(close_folder) = NULL;
	struct dirent *entry;

	if (fd >= 0)
		dir = fdopendir(fd);
	if (!dir) {
		if (errno != ENOENT)
			w->stats.unreadable++;
		return errno == ENOMEM ? -ENOMEM : 0;
	}
	(void)take_fd(&fd);
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) && push(w, entry->d_name) < 0)
			return -ENOMEM;
	}
	return 0;
}

typedef int visitor(uint64_t id, const char *path, void *userdata);

static int visit_current(struct walk *w, visitor *visit, void *userdata)
{
	const char *relative = w->path_len ? w->path + 1 : ".";
	struct stat st;
	int r;

	if (fstatat(w->root_fd, relative, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	w->stats.visited++;
	r = visit((uint64_t)st.st_ino, w->path_len ? w->path : "/", userdata);
	if (r != 0)
		return r;
	/* kernfs counts links as of old: two and one per subfolder. It saves reading the dozens of files of each leaf.
	 */
	return st.st_nlink == 2 ? 0 : push_children(w, relative);
}

int cgroup_walk(int root_fd, visitor *visit, void *userdata, struct cgroup_walk_stats *ret)
{
	struct walk w cleanup(walk_done) = {.root_fd = root_fd};
	int r = visit_current(&w, visit, userdata);

	while (r == 0 && w.waiting.len > 0) {
		pop(&w);
		r = visit_current(&w, visit, userdata);
	}
	if (w.stats.too_deep > 0)
		log_debug("%zu cgroups have paths of more than %d bytes, ignoring them and all below", w.stats.too_deep,
			  PATH_LEN_MAX);
	if (ret)
		*ret = w.stats;
	return r;
}
