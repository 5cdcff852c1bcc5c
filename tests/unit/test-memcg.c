/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares from memory.stat, in trees of plain folders whose memory.stat files are written by a model of the kernel's
 * counters: a total holds what the cgroup, its descendants and its dead descendants counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/source/memcg.h"

/* ---- the model ---- */

#define CGROUPS_MAX 4000
#define HELD_MAX 500

struct cgroup {
	char path[512]; /* "" for the root */
	uint64_t id;
	int parent;
	bool alive, hidden; /* hidden: without memory.stat */
	uint64_t own[2], dead[2];
	uint64_t reported[2];
};

static struct {
	char root[256];
	bool v1;
	struct cgroup c[CGROUPS_MAX];
	int n;
	int held[HELD_MAX], n_held;
	bool strict; /* what is reported must never be more than what was counted */
} world;

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

static const char *full(int c, const char *file)
{
	static char path[1024];

	snprintf(path, sizeof(path), "%s%s%s", world.root, world.c[c].path, file);
	return path;
}

static uint64_t total(int c, int k)
{
	uint64_t sum = world.c[c].own[k] + world.c[c].dead[k];

	for (int i = c + 1; i < world.n; i++)
		if (world.c[i].alive && world.c[i].parent == c)
			sum += total(i, k);
	return sum;
}

static void write_raw(int c, const char *text)
{
	int fd = open(full(c, "/memory.stat"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* The files as the kernel would show them now, of a cgroup and all above it. */
static void write_stats(int c)
{
	for (; c >= 0; c = world.c[c].parent) {
		char text[512];

		if (world.c[c].hidden)
			continue;
		if (world.v1)
			snprintf(text, sizeof(text),
				 "cache 7\npgfault 1\npgmajfault 1\ntotal_cache 9\ntotal_pgfault %" PRIu64
				 "\ntotal_pgmajfault %" PRIu64 "\n",
				 total(c, 0), total(c, 1));
		else
			snprintf(text, sizeof(text),
				 "anon 4096\npgfault_x 5\npgfault %" PRIu64 "\nxpgmajfault 6\npgmajfault %" PRIu64
				 "\nthp 0\n",
				 total(c, 0), total(c, 1));
		write_raw(c, text);
	}
}

static void grow(int c, uint64_t faults, uint64_t major)
{
	world.c[c].own[0] += faults;
	world.c[c].own[1] += major;
	write_stats(c);
}

static int birth(int parent, const char *name)
{
	int c = world.n++;
	struct stat st;

	assert_true(c < CGROUPS_MAX);
	/* Where the controller is off it is off below. */
	world.c[c] = (struct cgroup){.parent = parent, .alive = true, .hidden = parent > 0 && world.c[parent].hidden};
	assert_true(strlen(world.c[parent].path) + 1 + strlen(name) < sizeof(world.c[c].path));
	strcat(strcat(strcpy(world.c[c].path, world.c[parent].path), "/"), name);
	assert_int_equal(mkdir(full(c, ""), 0755), 0);
	assert_int_equal(stat(full(c, ""), &st), 0);
	world.c[c].id = (uint64_t)st.st_ino;
	write_stats(c);
	return c;
}

static void death(int c)
{
	struct cgroup *p = &world.c[world.c[c].parent];

	for (int k = 0; k < 2; k++)
		p->dead[k] += total(c, k);
	world.c[c].alive = false;
	/* Unlike the kernel's cgroups some file systems hand numbers out again; not while the folder is open. */
	assert_true(world.n_held < HELD_MAX);
	world.held[world.n_held] = open(full(c, ""), O_PATH | O_CLOEXEC);
	assert_true(world.held[world.n_held++] >= 0);
	unlink(full(c, "/memory.stat"));
	assert_int_equal(rmdir(full(c, "")), 0);
	write_stats(world.c[c].parent);
}

static int set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct stat st;

	memset(&world, 0, sizeof(world));
	snprintf(world.root, sizeof(world.root), "%s/faultd-memcg-XXXXXX", tmp ? tmp : P_tmpdir);
	if (!mkdtemp(world.root) || stat(world.root, &st) < 0)
		return -1;
	world.n = 1;
	world.c[0] = (struct cgroup){.parent = -1, .alive = true, .id = (uint64_t)st.st_ino};
	world.strict = true;
	write_stats(0);
	return 0;
}

static int tear_down(void **state)
{
	while (world.n_held > 0)
		close(world.held[--world.n_held]);
	remove_tree(AT_FDCWD, world.root);
	return 0;
}

/* ---- reading ---- */

static struct memcg *follow(size_t capacity)
{
	struct memcg *m = NULL;

	assert_int_equal(memcg_new(world.root, world.v1 ? MEMCG_V1 : MEMCG_V2, capacity, &m), 0);
	return m;
}

static uint64_t reported(int k)
{
	uint64_t sum = 0;

	for (int i = 0; i < world.n; i++)
		sum += world.c[i].reported[k];
	return sum;
}

static void grown(const struct memcg_growth *g, void *userdata)
{
	assert_ptr_equal(userdata, &world);
	assert_true(g->faults || g->major);
	for (int i = world.n - 1; i >= 0; i--) {
		if (strcmp(*world.c[i].path ? world.c[i].path : "/", g->path) != 0)
			continue;
		assert_int_equal(g->id, world.c[i].id);
		world.c[i].reported[0] += g->faults;
		world.c[i].reported[1] += g->major;
		return;
	}
	fail_msg("%s is unknown", g->path);
}

static int step(struct memcg *m, size_t budget)
{
	int r = memcg_step(m, budget, grown, &world);

	for (int k = 0; k < 2; k++)
		if (world.strict && reported(k) > total(0, k))
			fail_msg("%" PRIu64 " reported, %" PRIu64 " counted", reported(k), total(0, k));
	return r;
}

static void round_of(struct memcg *m)
{
	int r;

	while ((r = step(m, 7)) == 0)
		;
	assert_int_equal(r, 1);
}

static void expect(int c, uint64_t faults, uint64_t major)
{
	if (world.c[c].reported[0] != faults || world.c[c].reported[1] != major)
		fail_msg("%s/ reports %" PRIu64 " and %" PRIu64 ", not %" PRIu64 " and %" PRIu64, world.c[c].path,
			 world.c[c].reported[0], world.c[c].reported[1], faults, major);
}

/* ---- shares ---- */

static void the_first_round_takes_bearings_only(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a");

	grow(0, 100, 10);
	grow(a, 50, 5);
	round_of(m);
	round_of(m);
	assert_int_equal(reported(0) + reported(1), 0);
	grow(a, 7, 2);
	round_of(m);
	expect(a, 7, 2);
	expect(0, 0, 0);
	memcg_free(m);
}

static void a_share_is_the_growth_less_the_childrens(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b = birth(a, "b"), c = birth(a, "c");

	grow(0, 1000, 100);
	grow(b, 300, 30);
	round_of(m);
	grow(0, 1, 0);
	grow(a, 20, 3);
	grow(b, 300, 0);
	grow(c, 4000, 5);
	round_of(m);
	expect(0, 1, 0);
	expect(a, 20, 3);
	expect(b, 300, 0);
	expect(c, 4000, 5);
	round_of(m);
	assert_int_equal(reported(0), 4321);
	memcg_free(m);
}

static void shares_on_v1_come_from_the_hierarchical_totals(void **state)
{
	struct memcg *m;
	int a, b;

	world.v1 = true;
	write_stats(0);
	a = birth(0, "a");
	b = birth(a, "b");
	m = follow(100);
	round_of(m);
	grow(a, 20, 3);
	grow(b, 300, 1);
	round_of(m);
	expect(0, 0, 0);
	expect(a, 20, 3);
	expect(b, 300, 1);
	memcg_free(m);
}

static void a_cgroup_born_after_the_first_round_counts_fully(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b, c;

	round_of(m);
	b = birth(a, "b");
	c = birth(b, "c");
	grow(b, 40, 1);
	grow(c, 2, 2);
	round_of(m);
	expect(b, 40, 1);
	expect(c, 2, 2);
	expect(a, 0, 0);
	memcg_free(m);
}

static void what_a_dead_cgroup_counted_unseen_goes_to_its_parent(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b = birth(a, "b"), c = birth(b, "c");

	round_of(m);
	grow(c, 10, 1);
	round_of(m);
	grow(c, 5, 1);
	death(c);
	round_of(m);
	expect(c, 10, 1);
	expect(b, 5, 1);
	grow(b, 3, 0);
	death(b);
	round_of(m);
	expect(b, 5, 1);
	expect(a, 3, 0);
	/* One that lived between two rounds. */
	b = birth(a, "short");
	grow(b, 6, 0);
	death(b);
	round_of(m);
	expect(a, 9, 0);
	assert_int_equal(reported(0), 24);
	memcg_free(m);
}

static void what_a_child_counts_between_its_parents_reading_and_its_own_is_not_reported_twice(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a");

	round_of(m);
	/* The root is read, then the child counts, then the child is read. */
	assert_int_equal(step(m, 1), 0);
	grow(a, 1000, 100);
	while (step(m, 1) == 0)
		;
	expect(a, 1000, 100);
	expect(0, 0, 0);
	grow(0, 7, 0);
	round_of(m);
	expect(a, 1000, 100);
	expect(0, 7, 0);

	/* The child dies before the root's next reading. */
	assert_int_equal(step(m, 1), 0);
	grow(a, 500, 0);
	while (step(m, 1) == 0)
		;
	death(a);
	round_of(m);
	expect(a, 1500, 100);
	expect(0, 7, 0);
	memcg_free(m);
}

static void nor_when_the_parent_dies_before_its_next_reading(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b = birth(a, "b");

	round_of(m);
	/* The root and a are read and listed, then b counts and is read. */
	assert_int_equal(step(m, 4), 0);
	grow(b, 100, 0);
	assert_int_equal(step(m, 20), 1);
	expect(b, 100, 0);
	death(b);
	death(a);
	round_of(m);
	round_of(m);
	assert_int_equal(reported(0), 100);
	memcg_free(m);
}

/* ---- files that are not as they should be ---- */

static void without_the_controller_counts_stay_with_the_nearest_ancestor(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b = birth(a, "b");

	world.c[b].hidden = true;
	unlink(full(b, "/memory.stat"));
	round_of(m);
	grow(a, 5, 1);
	grow(b, 10, 1);
	round_of(m);
	expect(b, 0, 0);
	expect(a, 15, 2);
	/* Switched on later: from then on it counts itself. */
	world.c[b].hidden = false;
	write_stats(b);
	round_of(m);
	grow(b, 3, 0);
	round_of(m);
	expect(b, 3, 0);
	expect(a, 15, 2);
	memcg_free(m);
}

static void a_root_without_memory_stat_hides_nobody(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b = birth(a, "b");

	world.c[0].hidden = true;
	unlink(full(0, "/memory.stat"));
	round_of(m);
	grow(a, 5, 1);
	grow(b, 10, 1);
	round_of(m);
	expect(a, 5, 1);
	expect(b, 10, 1);
	expect(0, 0, 0);
	memcg_free(m);
}

static void garbage_is_no_reading_and_the_sum_comes_right_again(void **state)
{
	static const char *const garbage[] = {
	    "",
	    "\n",
	    "pgfault\n",
	    "pgfault 12",
	    "pgfault x\npgmajfault 3\n",
	    "pgfault 100000 \npgmajfault 1000\n",
	    "pgfault -1\npgmajfault 1\n",
	    "pgfault 99999999999999999999999\npgmajfault 1000\n",
	    "pgfault 18446744073709551615\npgmajfault 1000\n",
	    "pgfault \npgmajfault \n",
	    " pgfault 5\n pgmajfault 5\n",
	    "PGFAULT 5\nPGMAJFAULT 5\n",
	    "pgfault 100000\npgmajfault 1000x\n",
	};
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b = birth(a, "b");

	grow(a, 100, 10);
	grow(b, 100, 10);
	round_of(m);
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		uint64_t before = reported(0);
		uint64_t b_before = world.c[b].reported[0];

		grow(a, 20, 1);
		grow(b, 3, 1);
		write_raw(a, garbage[i]);
		round_of(m);
		assert_int_equal(world.c[b].reported[0], b_before + 3);
		write_stats(a);
		round_of(m);
		assert_int_equal(reported(0), before + 23);
	}
	memcg_free(m);
}

static void a_file_that_is_none_is_no_reading(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b = birth(0, "b"), c = birth(0, "c"), d = birth(0, "d");
	auto_free char *large = malloc(200001);
	int other;

	round_of(m);
	for (int i = a; i <= d; i++)
		unlink(full(i, "/memory.stat"));
	assert_int_equal(mkfifo(full(a, "/memory.stat"), 0644), 0);
	assert_int_equal(mkdir(full(b, "/memory.stat"), 0755), 0);
	assert_int_equal(symlink("../other", full(c, "/memory.stat")), 0);
	other = open(full(0, "/other"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(write(other, "pgfault 5\npgmajfault 5\n", 23), 23);
	close(other);
	memset(large, 'x', 200000);
	strcpy(large + 199950, "\npgfault 5\npgmajfault 5\n");
	write_raw(d, large);
	grow(0, 3, 0);
	round_of(m);
	expect(0, 3, 0);
	assert_int_equal(reported(0), 3);
	memcg_free(m);
}

static void a_counter_that_goes_back_takes_bearings_anew(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a");

	grow(a, 1000, 10);
	round_of(m);
	write_raw(a, "pgfault 400\npgmajfault 10\n");
	round_of(m);
	expect(a, 0, 0);
	write_raw(a, "pgfault 405\npgmajfault 10\n");
	world.c[0].own[0] += 5;
	write_stats(0);
	round_of(m);
	expect(a, 5, 0);
	expect(0, 0, 0);
	memcg_free(m);
}

static void a_cgroup_recreated_under_its_name_is_another(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), again;

	grow(a, 1000, 10);
	round_of(m);
	grow(a, 50, 0);
	death(a);
	again = birth(0, "a");
	assert_int_not_equal(world.c[again].id, world.c[a].id);
	grow(again, 1200, 12);
	round_of(m);
	expect(again, 1200, 12);
	expect(0, 50, 0);
	memcg_free(m);
}

static void one_recreated_between_listing_and_reading_is_another_too(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), again;

	grow(a, 1000, 10);
	round_of(m);
	assert_int_equal(step(m, 2), 0);
	death(a);
	again = birth(0, "a");
	grow(again, 1200, 12);
	round_of(m);
	expect(a, 0, 0);
	round_of(m);
	expect(again, 1200, 12);
	expect(0, 0, 0);
	memcg_free(m);
}

static void what_is_below_a_folder_that_cannot_be_opened_does_not_begin_anew(void **state)
{
	struct memcg *m = follow(100);
	int a = birth(0, "a"), b = birth(a, "b"), c = birth(b, "c");
	struct rlimit limit, none;

	grow(b, 100000, 1000);
	grow(c, 100000, 1000);
	round_of(m);
	grow(c, 5, 0);
	/* The root is read and listed, for the others no descriptor is left. */
	assert_int_equal(step(m, 2), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (step(m, 1) == 0)
		;
	assert_true(step(m, 1) < 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	round_of(m);
	grow(b, 2, 0);
	round_of(m);
	round_of(m);
	assert_int_equal(reported(0), 7);
	expect(b, 2, 0);
	memcg_free(m);
}

static void odd_names_are_followed_and_what_is_no_folder_is_not(void **state)
{
	struct memcg *m;
	int odd = birth(0, "q\"b\\n\n\t\xff\\x2d (deleted)"), c;
	char name[256] = "";

	memset(name, 'x', 255);
	c = birth(odd, name);
	assert_int_equal(symlink(".", full(0, "/loop")), 0);
	assert_int_equal(symlink(world.root, full(odd, "/up")), 0);
	assert_int_equal(mkfifo(full(0, "/fifo"), 0600), 0);
	m = follow(100);
	round_of(m);
	grow(odd, 1, 0);
	grow(c, 2, 0);
	round_of(m);
	expect(odd, 1, 0);
	expect(c, 2, 0);
	memcg_free(m);
}

static void paths_beyond_4096_bytes_stay_with_their_parent(void **state)
{
	struct memcg *m = follow(100);
	int fd = open(world.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[256] = "";

	memset(name, 'x', 255);
	for (int depth = 0; depth < 20; depth++) {
		int next;

		assert_int_equal(mkdirat(fd, name, 0755), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	round_of(m);
	grow(0, 3, 0);
	round_of(m);
	expect(0, 3, 0);
	memcg_free(m);
}

/* ---- bounds ---- */

static void beyond_the_capacity_the_deepest_stay_with_their_parent(void **state)
{
	struct memcg *m = follow(4);
	int a = birth(0, "a"), b = birth(0, "b"), aa = birth(a, "aa"), deep = birth(aa, "deep"), late;

	grow(deep, 5000, 0);
	round_of(m);
	grow(a, 1, 0);
	grow(b, 2, 0);
	grow(aa, 4, 0);
	grow(deep, 8, 0);
	round_of(m);
	expect(a, 1, 0);
	expect(b, 2, 0);
	expect(aa, 12, 0);
	/* Room becomes free: what was in the parent's share until now is not counted again. */
	death(b);
	round_of(m);
	round_of(m);
	grow(deep, 16, 0);
	round_of(m);
	expect(deep, 16, 0);
	expect(aa, 12, 0);
	/* Deaths below a full cgroup are noticed though not all its children are followed. */
	late = birth(aa, "late");
	grow(late, 32, 0);
	round_of(m);
	death(deep);
	round_of(m);
	round_of(m);
	grow(late, 64, 0);
	round_of(m);
	expect(late, 64, 0);
	assert_int_equal(reported(0), 1 + 2 + 4 + 8 + 16 + 32 + 64);
	memcg_free(m);
}

static void a_step_does_no_more_than_its_budget(void **state)
{
	struct memcg *m = follow(1000);
	char name[16];
	int steps = 0;

	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		birth(0, name);
	}
	while (step(m, 1) == 0)
		steps++;
	/* 301 readings, and a listing of 300 folders, some thirty in a step. */
	assert_true(steps >= 308 && steps <= 312);
	for (int i = 1; i < world.n; i++)
		world.c[i].own[0] = 1;
	for (int i = 1; i < world.n; i++)
		write_stats(i);
	steps = 0;
	while (step(m, 1) == 0)
		steps++;
	/* And 300 reports, some thirty in a step. */
	assert_true(steps >= 317 && steps <= 324);
	assert_int_equal(reported(0), 300);
	/* Without a budget it still gets on. */
	steps = 0;
	while (step(m, 0) == 0)
		assert_true(steps++ < 1000);
	memcg_free(m);
}

static void a_round_of_few_is_one_step(void **state)
{
	struct memcg *m = follow(100);

	birth(0, "a");
	assert_int_equal(step(m, 20), 1);
	grow(0, 1, 1);
	assert_int_equal(step(m, 20), 1);
	expect(0, 1, 1);
	memcg_free(m);
}

static void a_hierarchy_that_is_gone_is_an_error_and_may_come_back(void **state)
{
	struct memcg *m = NULL;
	int a;
	struct stat st;

	assert_int_equal(memcg_new("/nonexistent/faultd", MEMCG_V2, 10, &m), -ENOENT);
	assert_int_equal(memcg_new(full(0, "/memory.stat"), MEMCG_V2, 10, &m), -ENOTDIR);
	assert_null(m);
	assert_null(memcg_free(NULL));

	/* The former tree leaves no room for a second one. */
	m = follow(2);
	a = birth(0, "a");
	grow(a, 10, 0);
	round_of(m);
	/* Held, so that the number of the former root is not handed out again. */
	world.held[world.n_held++] = open(world.root, O_PATH | O_CLOEXEC);
	remove_tree(AT_FDCWD, world.root);
	assert_int_equal(step(m, 100), -ENOENT);
	assert_int_equal(step(m, 100), -ENOENT);
	/* Another tree at the same place: bearings anew. */
	assert_int_equal(mkdir(world.root, 0755), 0);
	assert_int_equal(stat(world.root, &st), 0);
	world.c[0].id = (uint64_t)st.st_ino;
	world.c[a].alive = false;
	world.c[0].own[0] = 7;
	write_stats(0);
	round_of(m);
	round_of(m);
	grow(0, 2, 0);
	round_of(m);
	expect(0, 2, 0);
	memcg_free(m);
}

static void it_can_be_freed_in_the_middle_of_a_round(void **state)
{
	char name[16];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		birth(i / 4, name);
	}
	for (int stop = 0; stop < 60; stop++) {
		struct memcg *m = follow(100);

		round_of(m);
		if (stop == 20)
			death(world.n - 1);
		for (int i = 0; i < stop; i++)
			step(m, 1);
		memcg_free(m);
	}
}

/* ---- the whole against chance ---- */

static int pick_alive(void)
{
	int c;

	do
		c = rand() % world.n;
	while (!world.c[c].alive);
	return c;
}

static bool has_children(int c)
{
	for (int i = c + 1; i < world.n; i++)
		if (world.c[i].alive && world.c[i].parent == c)
			return true;
	return false;
}

static void something_happens(bool trouble)
{
	int c = pick_alive();
	char name[16];

	switch (rand() % 10) {
	case 0:
	case 1:
		if (world.n < CGROUPS_MAX - 1 && strlen(world.c[c].path) < 400) {
			snprintf(name, sizeof(name), "n%d", world.n);
			birth(c, name);
		}
		break;
	case 2:
		if (c > 0 && !has_children(c))
			death(c);
		break;
	case 3:
		/* No reading for a while. */
		if (trouble)
			write_raw(c, rand() % 2 ? "garbage" : "");
		break;
	case 4:
		if (trouble && c > 0 && !has_children(c)) {
			world.c[c].hidden = true;
			unlink(full(c, "/memory.stat"));
		}
		break;
	default:
		grow(c, (uint64_t)(rand() % 1000), (uint64_t)(rand() % 3));
	}
}

/* Lets chance rule between any two steps, then lets the dust settle. */
static void by_chance(unsigned seed, size_t capacity, size_t budget, bool trouble)
{
	struct memcg *m;
	uint64_t begin[2];

	tear_down(NULL);
	set_up(NULL);
	srand(seed);
	for (int i = 0; i < 60; i++)
		something_happens(false);
	m = follow(capacity);
	for (int k = 0; k < 2; k++)
		begin[k] = total(0, k);
	round_of(m);
	for (int i = 0; i < 300; i++) {
		for (int n = rand() % 4; n > 0; n--)
			something_happens(trouble);
		assert_true(step(m, 1 + (size_t)rand() % budget) >= 0);
	}
	for (int i = 0; i < world.n; i++)
		if (world.c[i].alive)
			write_stats(i);
	for (int i = 0; i < 3; i++)
		round_of(m);
	for (int k = 0; k < 2; k++)
		if (reported(k) != total(0, k) - begin[k])
			fail_msg("seed %u: %" PRIu64 " reported, %" PRIu64 " counted", seed, reported(k),
				 total(0, k) - begin[k]);
	/* Nobody is credited with more than itself and its dead below it counted. */
	for (int i = 0; !trouble && capacity >= CGROUPS_MAX && i < world.n; i++)
		if (world.c[i].reported[0] > world.c[i].own[0] + world.c[i].dead[0])
			fail_msg("seed %u: %s reports too much", seed, world.c[i].path);
	memcg_free(m);
}

static void all_shares_add_up_to_the_growth_of_the_root(void **state)
{
	for (unsigned seed = 1; seed <= 12; seed++)
		by_chance(seed, CGROUPS_MAX, seed % 3 ? 5 : 40, false);
}

static void they_do_beyond_the_capacity(void **state)
{
	for (unsigned seed = 101; seed <= 110; seed++)
		by_chance(seed, seed % 30, 10, false);
}

static void they_do_when_readings_fail(void **state)
{
	for (unsigned seed = 201; seed <= 210; seed++)
		by_chance(seed, seed % 2 ? CGROUPS_MAX : 20, 10, true);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(the_first_round_takes_bearings_only),
	    TEST(a_share_is_the_growth_less_the_childrens),
	    TEST(shares_on_v1_come_from_the_hierarchical_totals),
	    TEST(a_cgroup_born_after_the_first_round_counts_fully),
	    TEST(what_a_dead_cgroup_counted_unseen_goes_to_its_parent),
	    TEST(what_a_child_counts_between_its_parents_reading_and_its_own_is_not_reported_twice),
	    TEST(nor_when_the_parent_dies_before_its_next_reading),
	    TEST(without_the_controller_counts_stay_with_the_nearest_ancestor),
	    TEST(a_root_without_memory_stat_hides_nobody),
	    TEST(garbage_is_no_reading_and_the_sum_comes_right_again),
	    TEST(a_file_that_is_none_is_no_reading),
	    TEST(a_counter_that_goes_back_takes_bearings_anew),
	    TEST(a_cgroup_recreated_under_its_name_is_another),
	    TEST(one_recreated_between_listing_and_reading_is_another_too),
	    TEST(what_is_below_a_folder_that_cannot_be_opened_does_not_begin_anew),
	    TEST(odd_names_are_followed_and_what_is_no_folder_is_not),
	    TEST(paths_beyond_4096_bytes_stay_with_their_parent),
	    TEST(beyond_the_capacity_the_deepest_stay_with_their_parent),
	    TEST(a_step_does_no_more_than_its_budget),
	    TEST(a_round_of_few_is_one_step),
	    TEST(a_hierarchy_that_is_gone_is_an_error_and_may_come_back),
	    TEST(it_can_be_freed_in_the_middle_of_a_round),
	    TEST(all_shares_add_up_to_the_growth_of_the_root),
	    TEST(they_do_beyond_the_capacity),
	    TEST(they_do_when_readings_fail),
	};
	return cmocka_run_group_tests_name("memcg", tests, NULL, NULL);
}
