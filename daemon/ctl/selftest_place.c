/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ctl/selftest_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"

#define REMOVE_TRIES 200
#define REMOVE_PAUSE_NS 10000000

struct mount {
	char *point;
	char *root; /* of the hierarchy, what the mount shows; "" for all of it */
};

/* ---- where the hierarchy is ---- */

/* Undoes \ooo, as mountinfo writes blanks. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && strspn(text + 1, "01234567") >= 3) {
			*to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

/* "36 35 0:30 ROOT POINT options - cgroup2 ..." */
static bool parse_mount(const char *line, struct mount *ret)
{
	const char *type = strstr(line, " - ");
	struct mount m = {0};

	if (!type || strncmp(type + 3, "cgroup2 ", 8) != 0)
		return false;
	if (sscanf(line, "%*s %*s %*s %ms %ms", &m.root, &m.point) != 2) {
		free(m.root);
		return false;
	}
	unescape(m.root);
	unescape(m.point);
	if (strcmp(m.root, "/") == 0)
		m.root[0] = '\0';
	*ret = m;
	return true;
}

static bool find_mount(struct mount *ret)
{
	FILE *file auto_fclose = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	size_t size = 0;

	while (file && getline(&line, &size, file) >= 0)
		if (parse_mount(line, ret))
			return true;
	return false;
}

/* The caller's own cgroup, "" for the root; NULL if it is not known. */
static char *find_own(void)
{
	FILE *file auto_fclose = fopen("/proc/self/cgroup", "re");
	auto_free char *line = NULL;
	size_t size = 0;
	ssize_t n;

	while (file && (n = getline(&line, &size, file)) >= 0) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		/* Outside of the cgroup namespace: its name is known to those outside alone. */
		if (strncmp(line, "0::/..", 6) == 0)
			return NULL;
		return strdup(strcmp(line, "0::/") == 0 ? "" : line + 3);
	}
	return NULL;
}

/* ---- trying ---- */

static int try_entering(const struct selftest_cgroup *cgroup)
{
	pid_t pid = fork();
	int status = 0;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-selftest_cgroup_enter(cgroup) & 0xff);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

/* What self-tests left behind that were killed. */
static void sweep(const struct selftest_place *place)
{
	DIR *dir = opendir(place->dir);
	struct dirent *entry;
	long pid;

	while (dir && (entry = readdir(dir))) {
		if (sscanf(entry->d_name, "faultd-selftest-%ld-", &pid) == 1 && pid > 0 && kill((pid_t)pid, 0) < 0 &&
		    errno == ESRCH)
			(void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	if (dir)
		closedir(dir);
}

static bool try_place(struct selftest_place *place)
{
	struct selftest_cgroup cgroup = {.procs = -EBADF};
	int r = selftest_cgroup_make(place, "trial", &cgroup);

	if (r == 0)
		r = try_entering(&cgroup);
	if (r == 0)
		sweep(place);
	if (r < 0)
		strbuf_addf(&place->reason, "%s%s: %s", place->reason.len ? "; " : "", place->dir, strerror(-r));
	(void)selftest_cgroup_remove(&cgroup);
	return r == 0;
}

static int consider(struct selftest_place *place, const struct mount *m, const char *path)
{
	size_t len = strlen(m->root);

	/* What the mount does not show cannot be used. */
	if (strncmp(path, m->root, len) != 0 || (path[len] != '\0' && path[len] != '/'))
		return 0;
	place->path = strdup(path);
	if (!place->path || asprintf(&place->dir, "%s%s", m->point, path + len) < 0)
		return -ENOMEM;
	if (try_place(place))
		return 1;
	free(take_ptr(place->path));
	free(take_ptr(place->dir));
	return 0;
}

int selftest_place_find(struct selftest_place *ret)
{
	struct selftest_place place = {0};
	auto_free char *own = find_own();
	struct mount m = {0};
	int r = 0;

	if (!find_mount(&m)) {
		strbuf_adds(&place.reason, "no cgroup v2 hierarchy is mounted");
	} else {
		r = own ? consider(&place, &m, own) : 0;
		if (r == 0 && (!own || strcmp(own, m.root) != 0))
			r = consider(&place, &m, m.root);
	}
	if (own)
		place.own = strdup(own[0] ? own : "/");
	if (r < 0 || (own && !place.own) || strbuf_error(&place.reason)) {
		selftest_place_done(&place);
		r = -ENOMEM;
	} else {
		*ret = place;
		r = 0;
	}
	free(m.point);
	free(m.root);
	return r;
}

void selftest_place_done(struct selftest_place *place)
{
	free(place->dir);
	free(place->path);
	free(place->own);
	strbuf_done(&place->reason);
	*place = (struct selftest_place){0};
}

/* ---- cgroups ---- */

int selftest_cgroup_make(const struct selftest_place *place, const char *name, struct selftest_cgroup *ret)
{
	struct selftest_cgroup c = {.procs = -EBADF};
	auto_free char *file = NULL;
	int r;

	if (asprintf(&c.path, "%s/faultd-selftest-%d-%s", place->path, (int)getpid(), name) < 0)
		return -ENOMEM;
	if (asprintf(&c.dir, "%s%s", place->dir, c.path + strlen(place->path)) < 0) {
		free(c.path);
		return -ENOMEM;
	}
	if (mkdir(c.dir, 0755) < 0) {
		r = -errno;
		free(c.path);
		free(c.dir);
		return r;
	}
	if (asprintf(&file, "%s/cgroup.procs", c.dir) < 0) {
		file = NULL;
		r = -ENOMEM;
	} else {
		c.procs = open(file, O_WRONLY | O_CLOEXEC);
		r = c.procs < 0 ? -errno : 0;
	}
	if (r < 0) {
		(void)selftest_cgroup_remove(&c);
		return r;
	}
	*ret = c;
	return 0;
}

int selftest_cgroup_enter(const struct selftest_cgroup *cgroup)
{
	return write(cgroup->procs, "0", 1) < 0 ? -errno : 0;
}

static void kill_all_in(const char *dir)
{
	auto_free char *file = NULL;
	FILE *procs auto_fclose = NULL;
	int pid;

	if (asprintf(&file, "%s/cgroup.procs", dir) < 0) {
		file = NULL;
		return;
	}
	procs = fopen(file, "re");
	/* 0 would be everything in the caller's process group: what this pid namespace does not see. */
	while (procs && fscanf(procs, "%d", &pid) == 1)
		if (pid > 0)
			(void)kill(pid, SIGKILL);
}

int selftest_cgroup_remove(struct selftest_cgroup *cgroup)
{
	const struct timespec pause = {.tv_nsec = REMOVE_PAUSE_NS};
	int r = 0;

	cgroup->procs = close_fd(cgroup->procs);
	/* Who was killed leaves it a little later. */
	for (int i = 0; cgroup->dir && i < REMOVE_TRIES; i++) {
		r = rmdir(cgroup->dir) < 0 ? -errno : 0;
		if (r != -EBUSY)
			break;
		kill_all_in(cgroup->dir);
		(void)nanosleep(&pause, NULL);
	}
	free(cgroup->dir);
	free(cgroup->path);
	*cgroup = (struct selftest_cgroup){.procs = -EBADF};
	return r == -ENOENT ? 0 : r;
}
