/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/source/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"

/* How much of the hierarchy a mount shows, more is better. */
#define SHOWS_NOTHING INT_MIN

struct mount {
	char *root, *point, *type, *options;
};

struct best {
	char *point;
	int shows;
};

static void best_done(struct best *b)
{
	free(b->point);
}

/* Spaces, tabs, newlines and backslashes are written \ooo. Decodes in place. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
		    s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* id parent device root point options [optional ...] - type source super-options */
static bool parse_line(char *line, struct mount *ret)
{
	char *fields[6], *field;

	line[strcspn(line, "\n")] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (!(fields[i] = strsep(&line, " ")))
			return false;
	do {
		field = strsep(&line, " ");
		if (!field)
			return false;
	} while (strcmp(field, "-") != 0);
	*ret = (struct mount){.root = fields[3], .point = fields[4], .type = strsep(&line, " ")};
	(void)strsep(&line, " ");
	ret->options = line;
	if (!ret->type || !ret->options)
		return false;
	unescape(ret->root);
	unescape(ret->point);
	return true;
}

static bool has_word(const char *text, const char *word, const char *separators)
{
	size_t len = strlen(word);

	while (*text) {
		size_t n = strcspn(text, separators);

		if (n == len && memcmp(text, word, n) == 0)
			return true;
		text += n;
		text += strspn(text, separators);
	}
	return false;
}

/* 0 for the whole tree as this process sees it. In a cgroup namespace a mount from outside shows more, its root is
 * "/.." or
 * "/../..". A part of the tree shows the less the deeper it is. */
static int shows(const char *root)
{
	int up = 0, components = 0;

	while (*(root += strspn(root, "/"))) {
		size_t n = strcspn(root, "/");

		up += n == 2 && memcmp(root, "..", 2) == 0;
		components++;
		root += n;
	}
	return up == components ? up : -components;
}

static int consider(const struct mount *m, struct best *best)
{
	int s = shows(m->root);
	char *point;

	if (s <= best->shows)
		return 0;
	point = strdup(m->point);
	if (!point)
		return -ENOMEM;
	free(best->point);
	*best = (struct best){.point = point, .shows = s};
	return 0;
}

static bool offers_memory(const char *mount)
{
	auto_free char *path = NULL;
	char text[4096];
	ssize_t n;

	if (asprintf(&path, "%s/cgroup.controllers", mount) < 0) {
		path = NULL; /* undefined after a failure */
		return false;
	}
	int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	return has_word(text, "memory", " \n");
}

/* The root of the hierarchy has no such file. */
static bool is_below_root(const char *mount)
{
	int folder auto_close = open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return folder >= 0 && faccessat(folder, "cgroup.events", F_OK, 0) == 0;
}

int cgroup_mounts_read(const char *mountinfo, struct cgroup_mounts *ret)
{
	auto_fclose FILE *file = fopen(mountinfo, "re");
	struct best v2 cleanup(best_done) = {.shows = SHOWS_NOTHING};
	struct best memory cleanup(best_done) = {.shows = SHOWS_NOTHING};
	auto_free char *line = NULL;
	size_t size = 0;
	struct mount m;
	int r = 0;

	if (!file)
		return -errno;
	errno = 0;
	while (r == 0 && getline(&line, &size, file) >= 0) {
		if (!parse_line(line, &m))
			continue;
		if (strcmp(m.type, "cgroup2") == 0)
			r = consider(&m, &v2);
		else if (strcmp(m.type, "cgroup") == 0 && has_word(m.options, "memory", ","))
			r = consider(&m, &memory);
	}
	if (r == 0 && !feof(file))
		r = errno ? -errno : -EIO;
	if (r < 0)
		return r;
	*ret = (struct cgroup_mounts){
	    .v2_memory = v2.point && offers_memory(v2.point),
	    .v2_below = v2.point && (v2.shows != 0 || is_below_root(v2.point)),
	};
	ret->v2 = take_ptr(v2.point);
	ret->memory = take_ptr(memory.point);
	return 0;
}

void cgroup_mounts_done(struct cgroup_mounts *m)
{
	free(m->v2);
	free(m->memory);
	*m = (struct cgroup_mounts){0};
}

/* ---- where a process is ---- */

int cgroup_membership_read(const char *proc_cgroup, struct cgroup_membership *ret)
{
	auto_fclose FILE *file = fopen(proc_cgroup, "re");
	struct cgroup_membership m cleanup(cgroup_membership_done) = {0};
	auto_free char *line = NULL;
	size_t size = 0;

	if (!file)
		return -errno;
	errno = 0;
	/* ID:CONTROLLER,CONTROLLER:PATH; the line of v2 is 0::PATH. */
	while (getline(&line, &size, file) >= 0) {
		char *rest = line, *number = strsep(&rest, ":"), *controllers = strsep(&rest, ":");

		if (!rest)
			continue;
		rest[strcspn(rest, "\n")] = '\0';
		if (has_word(controllers, "memory", ","))
			m.memory_hierarchy = (uint32_t)strtoul(number, NULL, 10);
		if (strcmp(number, "0") == 0 && !*controllers && !m.v2 && !(m.v2 = strdup(rest)))
			return -ENOMEM;
	}
	if (!feof(file))
		return errno ? -errno : -EIO;
	*ret = m;
	m.v2 = NULL;
	return 0;
}

void cgroup_membership_done(struct cgroup_membership *m)
{
	free(m->v2);
	*m = (struct cgroup_membership){0};
}
