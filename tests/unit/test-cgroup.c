/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of cgroups, in trees of plain folders (which have inode numbers too, but no handles of our kind) and, if this
 * process may create cgroups, in the kernel's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/source/cgroup.h"

#define SEC NSEC_PER_SEC
/* No inode has it. */
#define NOBODY UINT64_C(0xfffffffffffffff0)

/* ---- fixture: an empty folder ---- */

static char root[256];

static void remove_tree(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(fd, e->d_name, 0) < 0)
			remove_tree(fd, e->d_name);
	if (dir)
		closedir(dir);
	unlinkat(at, name, AT_REMOVEDIR);
}

static int set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(root, sizeof(root), "%s/faultd-cgroup-XXXXXX", tmp ? tmp : P_tmpdir);
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
	remove_tree(AT_FDCWD, root);
	return 0;
}

static const char *in_root(const char *path)
{
	static char full[8192];

	snprintf(full, sizeof(full), "%s%s", root, path);
	return full;
}

static uint64_t id_of(const char *full)
{
	struct stat st;

	assert_int_equal(lstat(full, &st), 0);
	return (uint64_t)st.st_ino;
}

/* Creates a folder and returns its id. */
static uint64_t make(const char *path)
{
	if (mkdir(in_root(path), 0755) < 0)
		fail_msg("mkdir %s: %s", path, strerror(errno));
	return id_of(in_root(path));
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(in_root(path), "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static struct cgroup_names *names_of(const char *mount, size_t capacity)
{
	struct cgroup_names *n = NULL;

	assert_int_equal(cgroup_names_new(mount, capacity, &n), 0);
	return n;
}

static void expect_name(struct cgroup_names *n, uint64_t id, uint64_t now, const char *want)
{
	auto_free char *path = NULL;
	int r = cgroup_names_find(n, id, now, &path);

	if (!want) {
		assert_int_equal(r, -ENOENT);
		assert_null(path);
		return;
	}
	if (r != 0)
		fail_msg("%s is not found: %s", want, strerror(-r));
	assert_string_equal(path, want);
}

/* ---- announced names ---- */

static void the_mount_point_must_be_a_folder(void **state)
{
	struct cgroup_names *n = NULL;

	write_file("/file", "");
	assert_int_equal(cgroup_names_new(in_root("/none"), 10, &n), -ENOENT);
	assert_int_equal(cgroup_names_new(in_root("/file"), 10, &n), -ENOTDIR);
	assert_null(n);
	assert_null(cgroup_names_free(NULL));
}

static void an_announced_name_outlives_the_cgroup_until_it_is_forgotten(void **state)
{
	struct cgroup_names *n = names_of(root, 10);

	cgroup_names_born(n, NOBODY, "/short/lived-and-more", 12, 0);
	expect_name(n, NOBODY, 0, "/short/lived");
	cgroup_names_died(n, NOBODY);
	cgroup_names_died(n, NOBODY);
	expect_name(n, NOBODY, 0, "/short/lived");
	cgroup_names_forget(n, NOBODY);
	cgroup_names_forget(n, NOBODY);
	expect_name(n, NOBODY, 0, NULL);
	cgroup_names_died(n, NOBODY);
	cgroup_names_free(n);
}

static void a_second_announcement_renames(void **state)
{
	struct cgroup_names *n = names_of(root, 10);

	cgroup_names_born(n, NOBODY, "/old", 4, 0);
	cgroup_names_born(n, NOBODY, "/new", 4, 0);
	expect_name(n, NOBODY, 0, "/new");
	cgroup_names_free(n);
}

/* Ids for which `changed` was called, as a sum: the order is nobody's business. */
static void add_changed(uint64_t id, void *userdata)
{
	*(uint64_t *)userdata += id;
}

static void rename_to(struct cgroup_names *n, uint64_t id, const char *path, uint64_t want_changed)
{
	uint64_t changed = 0;

	cgroup_names_renamed(n, id, path, strlen(path), 0, add_changed, &changed);
	assert_int_equal(changed, want_changed);
}

static void born(struct cgroup_names *n, uint64_t id, const char *path)
{
	cgroup_names_born(n, id, path, strlen(path), 0);
}

static void names_below_a_renamed_cgroup_follow(void **state)
{
	struct cgroup_names *n = names_of(root, 100);

	born(n, 1000, "/a/old");
	born(n, 2000, "/a/old/child");
	born(n, 4000, "/a/old/child/grandchild");
	born(n, 8000, "/a/older");
	born(n, 16000, "/b/old/child");
	born(n, 32000, "/a/old/dead");
	cgroup_names_died(n, 32000);
	rename_to(n, 1000, "/a/new", 2000 + 4000);
	expect_name(n, 1000, SEC, "/a/new");
	expect_name(n, 2000, SEC, "/a/new/child");
	expect_name(n, 4000, SEC, "/a/new/child/grandchild");
	expect_name(n, 8000, SEC, "/a/older");
	expect_name(n, 16000, SEC, "/b/old/child");
	/* What is dead was called so to its end. */
	expect_name(n, 32000, SEC, "/a/old/dead");
	rename_to(n, 2000, "/a/new/x", 4000);
	expect_name(n, 4000, SEC, "/a/new/x/grandchild");
	cgroup_names_free(n);
}

/* The former name of the renamed one was never asked for: those whose names lead nowhere by now are looked up again. */
static void names_below_a_renamed_cgroup_that_was_not_known_are_found_again(void **state)
{
	struct cgroup_names *n = names_of(root, 100);
	uint64_t folder, child, sibling, elsewhere;
	char old[300];

	make("/a");
	folder = make("/a/old");
	child = make("/a/old/child");
	sibling = make("/a/sibling");
	make("/b");
	elsewhere = make("/b/c");
	born(n, child, "/a/old/child");
	born(n, sibling, "/a/sibling");
	born(n, elsewhere, "/b/moved-in-secret");
	assert_true(strlen(in_root("/a/old")) < sizeof(old));
	strcpy(old, in_root("/a/old"));
	assert_int_equal(rename(old, in_root("/a/new")), 0);
	rename_to(n, folder, "/a/new", child);
	expect_name(n, folder, SEC, "/a/new");
	expect_name(n, child, 2 * SEC, "/a/new/child");
	expect_name(n, sibling, SEC, "/a/sibling");
	expect_name(n, elsewhere, SEC, "/b/moved-in-secret");
	cgroup_names_free(n);
}

static void a_cut_or_odd_announcement_is_looked_up_instead(void **state)
{
	uint64_t id = make("/real");
	struct cgroup_names *n = names_of(root, 10);

	cgroup_names_born(n, id, "/re", 3, 1);
	expect_name(n, id, 0, "/real");
	cgroup_names_born(n, NOBODY, "", 0, 0);
	cgroup_names_born(n, NOBODY, "relative", 8, 0);
	cgroup_names_born(n, NOBODY, "/\0x", 3, 1);
	expect_name(n, NOBODY, 10 * SEC, NULL);
	cgroup_names_free(n);
}

static void beyond_the_capacity_the_dead_go_first_then_the_oldest(void **state)
{
	struct cgroup_names *n = names_of(root, 3);

	/* The one walk of this test's present is spent, so that only kept names are found. */
	expect_name(n, NOBODY, 0, NULL);
	cgroup_names_born(n, NOBODY + 1, "/1", 2, 0);
	cgroup_names_born(n, NOBODY + 2, "/2", 2, 0);
	cgroup_names_born(n, NOBODY + 3, "/3", 2, 0);
	cgroup_names_died(n, NOBODY + 2);
	cgroup_names_born(n, NOBODY + 4, "/4", 2, 0);
	expect_name(n, NOBODY + 2, 0, NULL);
	expect_name(n, NOBODY + 1, 0, "/1");
	cgroup_names_born(n, NOBODY + 5, "/5", 2, 0);
	expect_name(n, NOBODY + 1, 0, NULL);
	expect_name(n, NOBODY + 3, 0, "/3");
	expect_name(n, NOBODY + 4, 0, "/4");
	expect_name(n, NOBODY + 5, 0, "/5");
	cgroup_names_free(n);

	n = names_of(root, 0);
	cgroup_names_born(n, NOBODY, "/a", 2, 0);
	expect_name(n, NOBODY, 0, "/a");
	cgroup_names_free(n);
}

static void many_births_and_deaths_keep_the_bound(void **state)
{
	struct cgroup_names *n = names_of(root, 50);
	size_t known = 0;

	expect_name(n, NOBODY, 0, NULL);
	for (uint64_t i = 1; i <= 20000; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/c%d", (int)i);
		cgroup_names_born(n, (i << 32) + 1, path, strlen(path), 0);
		if (i % 3)
			cgroup_names_died(n, ((i - i % 7) << 32) + 1);
		if (i % 5 == 0)
			cgroup_names_forget(n, ((i - 4) << 32) + 1);
	}
	for (uint64_t i = 1; i <= 20000; i++) {
		auto_free char *path = NULL;

		known += cgroup_names_find(n, (i << 32) + 1, 0, &path) == 0;
	}
	assert_true(known > 0 && known <= 50);
	cgroup_names_free(n);
}

/* ---- walking ---- */

static void a_walk_finds_what_no_handle_does(void **state)
{
	uint64_t a = make("/a"), b = make("/a/b"), odd = make("/a/q\"b\\n\n\t\xff\\x2d (deleted)");
	struct cgroup_names *n = names_of(root, 10);

	expect_name(n, b, 0, "/a/b");
	expect_name(n, id_of(root), 0, "/");
	expect_name(n, a, 0, "/a");
	expect_name(n, odd, 0, "/a/q\"b\\n\n\t\xff\\x2d (deleted)");
	cgroup_names_free(n);
}

static void a_walk_happens_once_a_second(void **state)
{
	struct cgroup_names *n = names_of(root, 10);
	uint64_t late;

	expect_name(n, NOBODY, 100 * SEC, NULL);
	late = make("/late");
	expect_name(n, late, 100 * SEC, NULL);
	expect_name(n, late, 101 * SEC - 1, NULL);
	expect_name(n, late, 101 * SEC, "/late");
	cgroup_names_free(n);
}

static void a_walk_beyond_the_capacity_finds_the_wanted_one_and_keeps_announced_names(void **state)
{
	struct cgroup_names *n = names_of(root, 2);
	char path[16];
	uint64_t last = 0;

	for (int i = 0; i < 50; i++) {
		snprintf(path, sizeof(path), "/d%d", i);
		last = make(path);
	}
	cgroup_names_born(n, NOBODY + 1, "/first", 6, 0);
	cgroup_names_born(n, NOBODY + 2, "/second", 7, 0);
	for (uint64_t i = 0; i < 5; i++)
		expect_name(n, NOBODY, i * SEC, NULL);
	expect_name(n, NOBODY + 1, 0, "/first");
	expect_name(n, last, 10 * SEC, path);
	expect_name(n, last, 10 * SEC, path);
	expect_name(n, NOBODY + 2, 10 * SEC, "/second");
	expect_name(n, NOBODY + 1, 10 * SEC, NULL);
	cgroup_names_free(n);
}

static void found_names_that_a_walk_does_not_meet_again_give_way_first(void **state)
{
	struct cgroup_names *n = names_of(root, 3);
	uint64_t a = make("/a"), b = make("/b");

	/* The youngest of the three names goes, since its cgroup is gone. */
	expect_name(n, id_of(root), 0, "/");
	expect_name(n, a, 0, "/a");
	expect_name(n, b, 0, "/b");
	rmdir(in_root("/b"));
	cgroup_names_forget(n, a);
	expect_name(n, a, 10 * SEC, "/a");
	cgroup_names_born(n, NOBODY, "/new", 4, 0);
	expect_name(n, b, 10 * SEC, NULL);
	expect_name(n, a, 10 * SEC, "/a");
	expect_name(n, id_of(root), 10 * SEC, "/");
	cgroup_names_free(n);
}

static void without_handles_life_is_told_by_name_and_id(void **state)
{
	struct cgroup_names *n = names_of(root, 10);
	uint64_t a = make("/a"), other;

	assert_true(cgroup_names_alive(n, a) < 0);
	cgroup_names_born(n, a, "/a", 2, 0);
	assert_int_equal(cgroup_names_alive(n, a), 1);
	rmdir(in_root("/a"));
	assert_int_equal(cgroup_names_alive(n, a), 0);
	/* The same name, another cgroup. */
	other = make("/b");
	cgroup_names_born(n, other + 1, "/b", 2, 0);
	assert_int_equal(cgroup_names_alive(n, other + 1), 0);
	expect_name(n, id_of(root), 0, "/");
	assert_int_equal(cgroup_names_alive(n, id_of(root)), 1);
	cgroup_names_free(n);
}

struct visits {
	char *paths[200];
	size_t n, stop_at, longest;
};

static int visit(uint64_t id, const char *path, void *userdata)
{
	struct visits *v = userdata;

	assert_true(v->n < ARRAY_SIZE(v->paths));
	assert_true(strlen(path) > 1000 || id == id_of(in_root(path)));
	if (strlen(path) > v->longest)
		v->longest = strlen(path);
	v->paths[v->n++] = strdup(path);
	return v->n == v->stop_at ? 42 : 0;
}

static size_t visited_at(const struct visits *v, const char *path)
{
	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->paths[i], path) == 0)
			return i;
	fail_msg("%s was not visited", path);
	return 0;
}

static void visits_done(struct visits *v)
{
	while (v->n > 0)
		free(v->paths[--v->n]);
}

static void a_walk_visits_all_folders_parents_first_and_nothing_else(void **state)
{
	struct cgroup_names *n = names_of(root, 10);
	struct visits v = {0};

	make("/a");
	make("/a/b");
	make("/a/b/c");
	make("/a/d");
	make("/e");
	write_file("/a/memory.stat", "");
	assert_int_equal(symlink("../e", in_root("/a/link")), 0);
	assert_int_equal(symlink("/", in_root("/outside")), 0);
	assert_int_equal(mkfifo(in_root("/fifo"), 0600), 0);

	assert_int_equal(cgroup_names_walk(n, visit, &v), 0);
	assert_int_equal(v.n, 6);
	assert_int_equal(visited_at(&v, "/"), 0);
	assert_true(visited_at(&v, "/a") < visited_at(&v, "/a/b"));
	assert_true(visited_at(&v, "/a/b") < visited_at(&v, "/a/b/c"));
	assert_true(visited_at(&v, "/a") < visited_at(&v, "/a/d"));
	visited_at(&v, "/e");
	visits_done(&v);

	v.stop_at = 3;
	assert_int_equal(cgroup_names_walk(n, visit, &v), 42);
	assert_int_equal(v.n, 3);
	visits_done(&v);
	cgroup_names_free(n);
}

/* Names of 255 bytes, one in the other: the path has 4,096 bytes after 16 of them. */
static void paths_of_4096_bytes_are_found_and_deeper_ones_left_out(void **state)
{
	struct cgroup_names *n = names_of(root, 100);
	struct visits v = {0};
	char name[256] = "", want[4097] = "";
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	memset(name, 'x', 255);
	for (int depth = 1; depth <= 20; depth++) {
		int next;

		assert_int_equal(mkdirat(fd, name, 0755), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(fd);
		fd = next;
		if (depth <= 16)
			strcat(strcat(want, "/"), name);
		if (depth == 16) {
			assert_int_equal(fstat(fd, &st), 0);
			expect_name(n, (uint64_t)st.st_ino, 0, want);
		}
	}
	close(fd);
	assert_int_equal(cgroup_names_walk(n, visit, &v), 0);
	assert_int_equal(v.n, 17);
	assert_int_equal(v.longest, 4096);
	visits_done(&v);
	cgroup_names_free(n);
}

static void a_walk_survives_folders_that_go_meanwhile(void **state)
{
	pid_t pid;
	struct cgroup_names *n = names_of(root, 100);
	int status;

	make("/busy");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (int i = 0; i < 3000; i++) {
			char path[32];

			snprintf(path, sizeof(path), "/busy/%d", i % 10);
			if (i / 10 % 2)
				rmdir(in_root(path));
			else if (mkdir(in_root(path), 0755) < 0)
				_exit(1);
		}
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0)
		for (uint64_t i = 0; i < 20; i++)
			expect_name(n, NOBODY, i * SEC, NULL);
	assert_int_equal(status, 0);
	cgroup_names_free(n);
}

/* ---- mounts ---- */

static void check_mounts(const char *text, const char *v2, const char *memory)
{
	struct cgroup_mounts m = {0};

	write_file("/mountinfo", text);
	assert_int_equal(cgroup_mounts_read(in_root("/mountinfo"), &m), 0);
	if (v2)
		assert_string_equal(m.v2, v2);
	else
		assert_null(m.v2);
	if (memory)
		assert_string_equal(m.memory, memory);
	else
		assert_null(m.memory);
	cgroup_mounts_done(&m);
	cgroup_mounts_done(&m);
}

static void mounts_are_found_on_unified_hybrid_and_legacy_hosts(void **state)
{
	check_mounts("29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
		     "rw,nsdelegate,memory_recursiveprot\n",
		     "/sys/fs/cgroup", NULL);
	check_mounts("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
		     "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
		     "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		     "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=memory-systemd\n"
		     "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
		     "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory");
	check_mounts("35 31 0:32 / /cgroup rw - cgroup none rw,cpuset,memory,blkio\n", NULL, "/cgroup");
	check_mounts("40 31 0:37 / /cgroup/named rw - cgroup cgroup rw,name=memory-systemd\n", NULL, NULL);
	check_mounts("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n", NULL, NULL);
	check_mounts("", NULL, NULL);
}

static void odd_mount_points_are_decoded(void **state)
{
	check_mounts("29 23 0:26 / /a\\040b\\011c\\134d rw - cgroup2 x rw\n", "/a b\tc\\d", NULL);
	check_mounts("29 23 0:26 / /a\\04 rw - cgroup2 x rw", "/a\\04", NULL);
	check_mounts("29 23 0:26 / /empty-source rw - cgroup2  rw\n", "/empty-source", NULL);
}

static void the_mount_that_shows_most_is_taken(void **state)
{
	check_mounts("1 0 0:26 /kubepods/pod1 /one rw - cgroup2 x rw\n"
		     "2 0 0:26 / /whole rw - cgroup2 x rw\n"
		     "3 0 0:26 / /second rw - cgroup2 x rw\n",
		     "/whole", NULL);
	check_mounts("1 0 0:26 /a/b /deep rw - cgroup2 x rw\n2 0 0:26 /a /less-deep rw - cgroup2 x rw\n", "/less-deep",
		     NULL);
	/* In a cgroup namespace: its own mount, and one of the host's. */
	check_mounts("1 0 0:26 / /sys/fs/cgroup rw - cgroup2 x rw\n2 0 0:26 /../../.. /host rw - cgroup2 x rw\n",
		     "/host", NULL);
	check_mounts("1 0 0:26 /../../pod2 /sibling rw - cgroup2 x rw\n2 0 0:26 / /own rw - cgroup2 x rw\n", "/own",
		     NULL);
}

static void broken_lines_are_passed_over(void **state)
{
	check_mounts(
	    "\n \n1\n1 2 3 4 5\n1 2 3 / /x rw\n1 2 3 / /x rw -\n1 2 3 / /x rw - cgroup2\n1 2 3 / /x rw - cgroup2 y\n"
	    "29 23 0:26 / /good rw a:1 b:2 c:3 - cgroup2 x rw\n",
	    "/good", NULL);
}

static void the_memory_controller_of_v2_is_seen(void **state)
{
	static const struct {
		const char *controllers;
		int want;
	} cases[] = {{"cpuset cpu io memory pids\n", 1}, {"memory", 1}, {"cpu hugememory memory2\n", 0}, {"", 0}};
	char line[512];

	snprintf(line, sizeof(line), "29 23 0:26 / %s rw - cgroup2 x rw\n", root);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cgroup_mounts m;

		write_file("/cgroup.controllers", cases[i].controllers);
		write_file("/mountinfo", line);
		assert_int_equal(cgroup_mounts_read(in_root("/mountinfo"), &m), 0);
		assert_int_equal(m.v2_memory, cases[i].want);
		cgroup_mounts_done(&m);
	}
}

static int v2_below(const char *root_of_mount, const char *point)
{
	char text[512];
	struct cgroup_mounts m = {0};
	int below;

	snprintf(text, sizeof(text), "1 0 0:26 %s %s rw - cgroup2 x rw\n", root_of_mount, point);
	write_file("/mountinfo", text);
	assert_int_equal(cgroup_mounts_read(in_root("/mountinfo"), &m), 0);
	below = m.v2_below;
	cgroup_mounts_done(&m);
	return below;
}

/* cgroups(7): no cgroup.events in the root; the root field of a mount is seen from the reader's cgroup namespace. */
static void a_part_of_v2_is_told_from_the_whole(void **state)
{
	char whole[300], part[300];

	make("/whole");
	make("/part");
	write_file("/whole/cgroup.procs", "");
	write_file("/part/cgroup.events", "populated 1\nfrozen 0\n");
	snprintf(whole, sizeof(whole), "%s/whole", root);
	snprintf(part, sizeof(part), "%s/part", root);
	assert_false(v2_below("/", whole));
	assert_true(v2_below("/", part));
	assert_true(v2_below("/a/b", whole));
	assert_true(v2_below("/../..", whole));
	assert_false(v2_below("/", "/nonexistent"));
}

static void an_unreadable_mountinfo_is_an_error(void **state)
{
	struct cgroup_mounts m = {.v2_memory = 7};

	assert_int_equal(cgroup_mounts_read(in_root("/none"), &m), -ENOENT);
	assert_true(cgroup_mounts_read(root, &m) < 0);
	assert_int_equal(m.v2_memory, 7);
}

/* ---- the kernel's cgroups ---- */

struct live {
	struct cgroup_mounts mounts;
	char name[64], full[512];
	uint64_t id;
};

static void try_later(const char *why)
{
	print_message("skipped: %s\n", why);
	skip();
}

/* Creates a cgroup whose name could be taken for a dead one's. */
static void begin_live(struct live *l)
{
	*l = (struct live){0};
	if (cgroup_mounts_read("/proc/self/mountinfo", &l->mounts) < 0 || !l->mounts.v2)
		try_later("no cgroup v2 hierarchy is mounted");
	snprintf(l->name, sizeof(l->name), "/faultd-test-%d (deleted)", (int)getpid());
	snprintf(l->full, sizeof(l->full), "%s%s", l->mounts.v2, l->name);
	if (mkdir(l->full, 0755) < 0) {
		cgroup_mounts_done(&l->mounts);
		try_later("no cgroup can be created (needs root and a writable hierarchy)");
	}
	l->id = id_of(l->full);
}

static void end_live(struct live *l)
{
	rmdir(l->full);
	cgroup_mounts_done(&l->mounts);
}

static bool have_handles(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_DAC_READ_SEARCH);
}

static void a_cgroup_of_the_kernel_is_found_by_its_handle(void **state)
{
	struct cgroup_names *n;
	struct live l;

	if (!have_handles())
		try_later("needs CAP_DAC_READ_SEARCH");
	begin_live(&l);
	n = names_of(l.mounts.v2, 10);
	/* The walk of this second is spent on an id that is not there, if handles do not tell that. */
	expect_name(n, NOBODY, 5 * SEC, NULL);
	expect_name(n, l.id, 5 * SEC, l.name);
	expect_name(n, id_of(l.mounts.v2), 5 * SEC, "/");
	cgroup_names_forget(n, l.id);
	cgroup_names_born(n, l.id, "/faultd-te", 10, 1);
	assert_int_equal(cgroup_names_alive(n, l.id), 1);
	assert_int_equal(cgroup_names_alive(n, NOBODY), 0);

	assert_int_equal(rmdir(l.full), 0);
	assert_int_equal(cgroup_names_alive(n, l.id), 0);
	/* Found while it lived, known after its death. */
	expect_name(n, l.id, 5 * SEC, l.name);
	cgroup_names_forget(n, l.id);
	expect_name(n, l.id, 5 * SEC, NULL);
	cgroup_names_free(n);
	end_live(&l);
}

static void drop_handles(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	data[0].effective &= ~(1u << CAP_DAC_READ_SEARCH);
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void without_the_capability_a_cgroup_of_the_kernel_is_found_by_walking(void **state)
{
	struct live l;
	int status;
	pid_t pid;

	begin_live(&l);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct cgroup_names *n = names_of(l.mounts.v2, 4096);
		auto_free char *path = NULL;
		bool ok;

		drop_handles();
		ok = cgroup_names_find(n, l.id, 0, &path) == 0 && strcmp(path, l.name) == 0 &&
		     cgroup_names_alive(n, l.id) == 1 && rmdir(l.full) == 0 && cgroup_names_alive(n, l.id) == 0;
		cgroup_names_free(n);
		_exit(!ok);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	end_live(&l);
}

/* A cgroup of the kernel stands for a namespace's root: what is mounted begins at it. */
static void births_in_a_part_of_the_tree_are_named_once_its_place_is_known(void **state)
{
	struct cgroup_names *n;
	struct live l;
	char child[600], told[600];
	uint64_t id;

	begin_live(&l);
	n = names_of(l.full, 10);
	/* A dead one tells nothing, neither does one outside. */
	snprintf(told, sizeof(told), "%s/dead", l.name);
	born(n, NOBODY, told);
	expect_name(n, NOBODY, 5 * SEC, NULL);
	born(n, id_of(l.mounts.v2), "/outside");
	born(n, NOBODY, told);
	expect_name(n, NOBODY, 10 * SEC, NULL);

	snprintf(child, sizeof(child), "%s/child", l.full);
	assert_int_equal(mkdir(child, 0755), 0);
	id = id_of(child);
	snprintf(told, sizeof(told), "%s/child", l.name);
	born(n, id, told);
	expect_name(n, id, 15 * SEC, "/child");
	assert_int_equal(rmdir(child), 0);

	/* From now on the dead have names, too; others still have none. */
	snprintf(told, sizeof(told), "%s/a/b", l.name);
	born(n, NOBODY, told);
	expect_name(n, NOBODY, 15 * SEC, "/a/b");
	snprintf(told, sizeof(told), "%s-sibling/a", l.name);
	born(n, NOBODY - 1, told);
	born(n, NOBODY - 2, l.name);
	born(n, NOBODY - 3, "/");
	for (uint64_t i = 1; i <= 3; i++)
		expect_name(n, NOBODY - i, (20 + 5 * i) * SEC, NULL);
	/* After a rename it may be another place. */
	cgroup_names_renamed(n, NOBODY - 4, "/any", 4, 0, add_changed, &id);
	snprintf(told, sizeof(told), "%s/c", l.name);
	born(n, NOBODY - 5, told);
	expect_name(n, NOBODY - 5, 50 * SEC, NULL);
	cgroup_names_free(n);
	end_live(&l);
}

static uint64_t made(const char *folder)
{
	uint64_t id;

	assert_int_equal(mkdir(folder, 0755), 0);
	id = id_of(folder);
	assert_int_equal(rmdir(folder), 0);
	return id;
}

/* The kernel tells of a birth before the cgroup can be looked up. Here its id is foretold from how ids of cgroups made one after
 * the other go up, until nobody else made one in between. */
static struct cgroup_names *names_told_too_early(const struct live *l, const char *child, const char *told,
						 uint64_t *ret)
{
	for (unsigned attempt = 0; attempt < 100; attempt++) {
		struct cgroup_names *n = names_of(l->full, 10);
		uint64_t first = made(child), second = made(child), foretold = second + (second - first);

		born(n, foretold, told);
		assert_int_equal(mkdir(child, 0755), 0);
		*ret = id_of(child);
		if (*ret == foretold)
			return n;
		assert_int_equal(rmdir(child), 0);
		cgroup_names_free(n);
	}
	fail_msg("others make cgroups all the time");
	return NULL;
}

static void a_birth_that_is_told_before_it_can_be_looked_up_shows_the_place_later(void **state)
{
	struct live l;
	char child[600], told[600], brief[600];

	begin_live(&l);
	snprintf(child, sizeof(child), "%s/child", l.full);
	snprintf(told, sizeof(told), "%s/child", l.name);
	snprintf(brief, sizeof(brief), "%s/brief", l.name);
	for (int asked = 0; asked < 2; asked++) {
		uint64_t id;
		struct cgroup_names *n = names_told_too_early(&l, child, told, &id);

		/* Either the next birth shows it, or its name's being asked for, while it lives. */
		if (asked) {
			expect_name(n, id, 0, "/child");
			assert_int_equal(rmdir(child), 0);
		}
		born(n, NOBODY, brief);
		expect_name(n, NOBODY, 5 * SEC, "/brief");
		if (!asked) {
			expect_name(n, id, 5 * SEC, "/child");
			assert_int_equal(rmdir(child), 0);
		}
		cgroup_names_free(n);
	}
	end_live(&l);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_mount_point_must_be_a_folder),
	    TEST(an_announced_name_outlives_the_cgroup_until_it_is_forgotten),
	    TEST(a_second_announcement_renames),
	    TEST(names_below_a_renamed_cgroup_follow),
	    TEST(names_below_a_renamed_cgroup_that_was_not_known_are_found_again),
	    TEST(a_cut_or_odd_announcement_is_looked_up_instead),
	    TEST(beyond_the_capacity_the_dead_go_first_then_the_oldest),
	    TEST(many_births_and_deaths_keep_the_bound),
	    TEST(a_walk_finds_what_no_handle_does),
	    TEST(a_walk_happens_once_a_second),
	    TEST(a_walk_beyond_the_capacity_finds_the_wanted_one_and_keeps_announced_names),
	    TEST(found_names_that_a_walk_does_not_meet_again_give_way_first),
	    TEST(without_handles_life_is_told_by_name_and_id),
	    TEST(a_walk_visits_all_folders_parents_first_and_nothing_else),
	    TEST(paths_of_4096_bytes_are_found_and_deeper_ones_left_out),
	    TEST(a_walk_survives_folders_that_go_meanwhile),
	    TEST(mounts_are_found_on_unified_hybrid_and_legacy_hosts),
	    TEST(odd_mount_points_are_decoded),
	    TEST(the_mount_that_shows_most_is_taken),
	    TEST(broken_lines_are_passed_over),
	    TEST(the_memory_controller_of_v2_is_seen),
	    TEST(a_part_of_v2_is_told_from_the_whole),
	    TEST(an_unreadable_mountinfo_is_an_error),
	    TEST(births_in_a_part_of_the_tree_are_named_once_its_place_is_known),
	    TEST(a_birth_that_is_told_before_it_can_be_looked_up_shows_the_place_later),
	    TEST(a_cgroup_of_the_kernel_is_found_by_its_handle),
	    TEST(without_the_capability_a_cgroup_of_the_kernel_is_found_by_walking),
	};
	log_set_max_level(LOG_ERR);
	return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
