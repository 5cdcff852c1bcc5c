/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/cleanup.h"
#include "daemon/ctl/trace_cgroups.h"

#define SECOND UINT64_C(1000000000)

DEFINE_CLEANUP(cgroups_done, struct trace_cgroups *, trace_cgroups_free)

/* An ordinary folder in the place of the hierarchy: inode numbers are ids. */
static char folder[] = "/tmp/test-trace-cgroups-XXXXXX";
static char mountinfo[128];

static struct {
	uint64_t id;
	bool wanted;
} verdicts[64];
static size_t n_verdicts;
static uint64_t forgotten[64];
static size_t n_forgotten;

static void on_verdict(uint64_t id, bool wanted, void *userdata)
{
	verdicts[n_verdicts].id = id;
	verdicts[n_verdicts++].wanted = wanted;
}

static void on_forget(uint64_t id, void *userdata)
{
	forgotten[n_forgotten++] = id;
}

static uint64_t make(const char *path)
{
	char full[256];
	struct stat st;

	snprintf(full, sizeof(full), "%s/tree%s", folder, path);
	assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
	assert_int_equal(stat(full, &st), 0);
	return st.st_ino;
}

static void drop(const char *path)
{
	char full[256];

	snprintf(full, sizeof(full), "%s/tree%s", folder, path);
	assert_int_equal(rmdir(full), 0);
}

/* 1 wanted, 0 not, -1 no verdict */
static int verdict_on(uint64_t id)
{
	int verdict = -1;

	for (size_t i = 0; i < n_verdicts; i++)
		if (verdicts[i].id == id)
			verdict = verdicts[i].wanted;
	return verdict;
}

static struct trace_cgroups *open_tree(const char *glob)
{
	struct trace_cgroups_ops ops = {.verdict = on_verdict, .forget = on_forget};
	struct trace_cgroups *c = NULL;

	n_verdicts = n_forgotten = 0;
	assert_int_equal(trace_cgroups_new(mountinfo, glob, &ops, &c), 0);
	return c;
}

static int make_folder(void **state)
{
	FILE *f;

	if (!mkdtemp(folder))
		return -1;
	make("");
	snprintf(mountinfo, sizeof(mountinfo), "%s/mountinfo", folder);
	f = fopen(mountinfo, "w");
	if (!f)
		return -1;
	fprintf(f, "30 20 0:26 / %s/tree rw - cgroup2 cgroup2 rw\n", folder);
	return fclose(f);
}

static int remove_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void the_glob_judges_all_that_are_there(void **state)
{
	uint64_t a = make("/a"), b = make("/a/b.service"), other = make("/c");
	struct trace_cgroups *c cleanup(cgroups_done) = open_tree("/a/**");

	assert_int_equal(trace_cgroups_refresh(c), 2);
	assert_int_equal(verdict_on(a), 1);
	assert_int_equal(verdict_on(b), 1);
	assert_int_equal(verdict_on(other), 0);
	assert_true(trace_cgroups_wanted(c, b, SECOND));
	assert_false(trace_cgroups_wanted(c, other, SECOND));
	assert_string_equal(trace_cgroups_name(c, b, SECOND), "/a/b.service");
}

static void those_born_later_are_judged_by_their_path(void **state)
{
	struct trace_cgroups *c cleanup(cgroups_done) = open_tree("/**/*.service");
	uint64_t late, later;
	size_t before;

	assert_true(trace_cgroups_refresh(c) >= 0);
	late = make("/late.service");
	assert_int_equal(verdict_on(late), -1);
	before = n_verdicts;
	assert_true(trace_cgroups_refresh(c) >= 1);
	assert_int_equal(verdict_on(late), 1);
	assert_int_equal(n_verdicts, before + 1); /* the others have theirs */
	/* A record is there before the walk. */
	later = make("/later.scope");
	assert_false(trace_cgroups_wanted(c, later, 10 * SECOND));
	assert_int_equal(verdict_on(later), 0);
	drop("/late.service");
	drop("/later.scope");
}

static void the_dead_are_forgotten(void **state)
{
	struct trace_cgroups *c cleanup(cgroups_done) = open_tree("/x");
	uint64_t x = make("/x");

	assert_int_equal(trace_cgroups_refresh(c), 1);
	drop("/x");
	assert_int_equal(trace_cgroups_refresh(c), 0);
	assert_int_equal(n_forgotten, 1);
	assert_int_equal(forgotten[0], x);
}

static void an_unknown_id_is_not_wanted(void **state)
{
	struct trace_cgroups *c cleanup(cgroups_done) = open_tree("/**");

	assert_true(trace_cgroups_refresh(c) > 0);
	assert_false(trace_cgroups_wanted(c, UINT64_MAX, 20 * SECOND));
	assert_null(trace_cgroups_name(c, UINT64_MAX, 20 * SECOND));
}

static void without_a_glob_all_are_wanted(void **state)
{
	struct trace_cgroups *c cleanup(cgroups_done) = open_tree(NULL);

	assert_int_equal(trace_cgroups_refresh(c), 0);
	assert_int_equal(n_verdicts, 0);
	assert_true(trace_cgroups_wanted(c, 1234567, SECOND));
	assert_string_equal(trace_cgroups_name(c, make("/a"), SECOND), "/a");
}

static void no_hierarchy_is_said(void **state)
{
	struct trace_cgroups_ops ops = {.verdict = on_verdict, .forget = on_forget};
	struct trace_cgroups *c cleanup(cgroups_done) = NULL;

	assert_int_equal(trace_cgroups_new("/dev/null", "/**", &ops, &c), -ENOENT);
	assert_null(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_glob_judges_all_that_are_there),
	    cmocka_unit_test(those_born_later_are_judged_by_their_path),
	    cmocka_unit_test(the_dead_are_forgotten),
	    cmocka_unit_test(an_unknown_id_is_not_wanted),
	    cmocka_unit_test(without_a_glob_all_are_wanted),
	    cmocka_unit_test(no_hierarchy_is_said),
	};
	return cmocka_run_group_tests_name("trace-cgroups", tests, make_folder, remove_folder);
}
