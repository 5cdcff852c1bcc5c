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

/* Whether a list "a,b,c" has the word "memory". */
static bool has_memory(const char *list)
{
	static const char word[] = "memory";

	for (const char *at = list; (at = strstr(at, word)); at++)
		if ((at == list || strchr(", :", at[-1])) && strchr(",:\n", at[strlen(word)]))
			return true;
	return false;
}

/* "36 35 0:30 ROOT POINT options - cgroup2 source ...", or "... - cgroup source rw,memory" */
static bool parse_mount(const char *line, bool memory, struct mount *ret)
{
	const char *type = strstr(line, " - "), *wanted = memory ? "cgroup " : "cgroup2 ";
	struct mount m = {0};

	if (!type || strncmp(type + 3, wanted, strlen(wanted)) != 0 || (memory && !has_memory(type)))
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

static bool find_mount(bool memory, struct mount *ret)
{
	FILE *file auto_fclose = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	size_t size = 0;

	while (file && getline(&line, &size, file) >= 0)
		if (parse_mount(line, memory, ret))
			return true;
	return false;
}

/* The path in a line of /proc/self/cgroup, "0::PATH" or "5:cpu,memory:PATH"; NULL if it is another hierarchy's. */
static char *parse_own(char *line, bool memory)
{
	char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return NULL;
	*path++ = '\n'; /* the end of the list */
	if (memory ? !has_memory(list) : strncmp(line, "0:\n", 3) != 0)
		return NULL;
	path[strcspn(path, "\n")] = '\0';
	return path[0] == '/' ? path : NULL;
}

/* The caller's own cgroup, "" for the root; NULL if it is not known. */
static char *find_own(bool memory)
{
	FILE *file auto_fclose = fopen("/proc/self/cgroup", "re");
	auto_free char *line = NULL;
	size_t size = 0;

	while (file && getline(&line, &size, file) >= 0) {
		const char *path = parse_own(line, memory);

		/* Outside of the cgroup namespace: its name is known to those outside alone. */
		if (path)
			return strncmp(path, "/..", 3) == 0 ? NULL : strdup(strcmp(path, "/") == 0 ? "" : path);
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

/* Gives the place a twin if cgroups can be made there, too. */
static int find_twin(struct selftest_place *place)
{
	struct mount m = {0};
	struct selftest_place twin = {0};
	int r = 0;

	if (find_mount(true, &m)) {
		r = consider(&twin, &m, place->path);
		place->twin = take_ptr(twin.dir);
	}
	selftest_place_done(&twin);
	free(m.point);
	free(m.root);
	return r < 0 ? r : 0;
}

int selftest_place_find(struct selftest_place *ret)
{
	struct selftest_place place = {0};
	struct mount m = {0};
	bool v2 = find_mount(false, &m);
	auto_free char *own = find_own(!v2);
	int r = 0;

	if (!v2 && !find_mount(true, &m)) {
		strbuf_adds(&place.reason, "neither cgroup v2 nor v1's memory controller is mounted");
	} else {
		r = own ? consider(&place, &m, own) : 0;
		if (r == 0 && (!own || strcmp(own, m.root) != 0))
			r = consider(&place, &m, m.root);
		if (r == 1 && v2)
			r = find_twin(&place);
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
	free(place->twin);
	free(place->path);
	free(place->own);
	strbuf_done(&place->reason);
	*place = (struct selftest_place){0};
}

/* ---- cgroups ---- */

static int make_folder(const struct selftest_place *place, const char *dir, const struct selftest_cgroup *c, char **ret)
{
	auto_free char *folder = NULL;

	if (asprintf(&folder, "%s%s", dir, c->path + strlen(place->path)) < 0) {
		folder = NULL; /* undefined after a failure */
		return -ENOMEM;
	}
	if (mkdir(folder, 0755) < 0)
		return -errno;
	*ret = take_ptr(folder);
	return 0;
}

int selftest_cgroup_make(const struct selftest_place *place, const char *name, struct selftest_cgroup *ret)
{
	struct selftest_cgroup c = {.procs = -EBADF};
	auto_free char *file = NULL;
	int r;

	if (asprintf(&c.path, "%s/faultd-selftest-%d-%s", place->path, (int)getpid(), name) < 0)
		return -ENOMEM;
	r = make_folder(place, place->dir, &c, &c.dir);
	if (r < 0) {
		free(c.path);
		return r;
	}
	r = place->twin ? make_folder(place, place->twin, &c, &c.twin) : 0;
	if (r < 0) {
		(void)selftest_cgroup_remove(&c);
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
	auto_free char *file = NULL;
	int twin auto_close = -EBADF;

	if (write(cgroup->procs, "0", 1) < 0)
		return -errno;
	if (!cgroup->twin)
		return 0;
	if (asprintf(&file, "%s/cgroup.procs", cgroup->twin) < 0) {
		file = NULL;
		return -ENOMEM;
	}
	twin = open(file, O_WRONLY | O_CLOEXEC);
	return twin < 0 || write(twin, "0", 1) < 0 ? -errno : 0;
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

static int remove_folder(const char *dir)
{
	const struct timespec pause = {.tv_nsec = REMOVE_PAUSE_NS};
	int r = 0;

	/* Who was killed leaves it a little later. */
	for (int i = 0; dir && i < REMOVE_TRIES; i++) {
		r = rmdir(dir) < 0 ? -errno : 0;
		if (r != -EBUSY)
			break;
		kill_all_in(dir);
		(void)nanosleep(&pause, NULL);
	}
	return r == -ENOENT ? 0 : r;
}

int selftest_cgroup_remove(struct selftest_cgroup *cgroup)
{
	int r, twin;

	cgroup->procs = close_fd(cgroup->procs);
	r = remove_folder(cgroup->dir);
	twin = remove_folder(cgroup->twin);
	free(cgroup->dir);
	free(cgroup->twin);
	free(cgroup->path);
	*cgroup = (struct selftest_cgroup){.procs = -EBADF};
	return r < 0 ? r : twin;
}
