/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which hierarchy is taken on which kind of host. What their /proc says is as proc(5) and cgroups(7) have it, and as such hosts were seen
 * to say.
 */
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

#include "daemon/hierarchy.h"

#define AUTO CONFIG_HIERARCHY_AUTO
#define V2 CONFIG_HIERARCHY_V2
#define MEMORY CONFIG_HIERARCHY_MEMORY

/* systemd of RHEL 8 and Amazon Linux 2: v1 alone. The line of v2 is there once anybody has mounted it. */
#define LEGACY \
	"12:devices:/system.slice/%s\n11:cpu,cpuacct:/\n5:memory:/system.slice/%s\n1:name=systemd:/system.slice/%s\n"
/* Its hybrid mode. */
#define HYBRID LEGACY "0::/system.slice/%s\n"

static char proc[256];

static void path_of(const char *process, const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%s/%s%s", proc, process, name);
}

static int set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char folder[300];

	snprintf(proc, sizeof(proc), "%s/faultd-proc-XXXXXX", tmp ? tmp : P_tmpdir);
	if (!mkdtemp(proc))
		return -1;
	path_of("1", "", folder, sizeof(folder));
	mkdir(folder, 0755);
	path_of("self", "", folder, sizeof(folder));
	return mkdir(folder, 0755);
}

static int tear_down(void **state)
{
	char path[300];

	for (int i = 0; i < 2; i++) {
		path_of(i ? "1" : "self", "/cgroup", path, sizeof(path));
		unlink(path);
		path_of(i ? "1" : "self", "", path, sizeof(path));
		rmdir(path);
	}
	return rmdir(proc);
}

/* `%s` in the text stands for the process' unit. NULL: the file is not there. */
static void process_is(const char *process, const char *text, const char *unit)
{
	char path[300];
	FILE *f;

	path_of(process, "/cgroup", path, sizeof(path));
	unlink(path);
	if (!text)
		return;
	f = fopen(path, "w");
	assert_non_null(f);
	for (; *text; text++)
		if (strncmp(text, "%s", 2) == 0) {
			fputs(unit, f);
			text++;
		} else {
			fputc(*text, f);
		}
	fclose(f);
}

static void host_is(const char *text)
{
	process_is("self", text, "faultd.service");
	process_is("1", text, "init.scope");
}

static struct cgroup_mounts mounts(const char *v2, const char *memory)
{
	return (struct cgroup_mounts){.v2 = (char *)v2, .memory = (char *)memory};
}

static void takes_v2(enum config_hierarchy wanted, struct cgroup_mounts m)
{
	struct hierarchy h;

	assert_int_equal(hierarchy_choose(wanted, &m, proc, &h), 0);
	assert_false(h.memory);
	assert_int_equal(h.id, 0);
	assert_ptr_equal(h.mount, m.v2);
	assert_int_equal(h.error, 0);
	assert_non_null(strstr(h.text, "those of v2"));
}

static void takes_memory(enum config_hierarchy wanted, struct cgroup_mounts m, uint32_t id)
{
	struct hierarchy h;

	assert_int_equal(hierarchy_choose(wanted, &m, proc, &h), 0);
	assert_true(h.memory);
	assert_int_equal(h.id, id);
	assert_string_equal(h.mount, m.memory);
	assert_int_equal(h.error, 0);
	assert_non_null(strstr(h.text, "v1's memory controller"));
}

static void v2_alone(void **state)
{
	process_is("self", "0::/system.slice/faultd.service\n", "");
	process_is("1", "0::/init.scope\n", "");
	takes_v2(AUTO, mounts("/sys/fs/cgroup", NULL));
	/* In a container of its own, all there is in one root. */
	host_is("0::/\n");
	takes_v2(AUTO, mounts("/sys/fs/cgroup", NULL));
	host_is(NULL);
	takes_v2(AUTO, mounts("/sys/fs/cgroup", NULL));
}

static void v1_alone(void **state)
{
	host_is(LEGACY);
	takes_memory(AUTO, mounts(NULL, "/sys/fs/cgroup/memory"), 5);
}

static void v1_with_v2_mounted_by_some_program(void **state)
{
	host_is(LEGACY "0::/\n");
	takes_memory(AUTO, mounts("/run/network/cgroupv2", "/sys/fs/cgroup/memory"), 5);
}

static void hybrid(void **state)
{
	host_is(HYBRID);
	takes_v2(AUTO, mounts("/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"));
}

/* Each of the two tells by itself: process 1 may be hidden from this one, or keep to the root, or this one was started by hand. */
static void one_process_outside_of_the_root_is_enough(void **state)
{
	process_is("self", HYBRID, "faultd.service");
	process_is("1", NULL, "");
	takes_v2(AUTO, mounts("/unified", "/memory"));
	process_is("1", LEGACY "0::/\n", "init.scope");
	takes_v2(AUTO, mounts("/unified", "/memory"));
	process_is("self", LEGACY "0::/\n", "");
	takes_memory(AUTO, mounts("/unified", "/memory"), 5);
	process_is("1", "0::/init.scope\n", "");
	takes_v2(AUTO, mounts("/unified", "/memory"));
	process_is("1", "0::/../../init.scope\n", "");
	takes_v2(AUTO, mounts("/unified", "/memory"));
}

static void a_part_of_v2_is_in_use(void **state)
{
	struct cgroup_mounts m = mounts("/unified", "/memory");

	host_is(LEGACY "0::/\n");
	m.v2_below = 1;
	takes_v2(AUTO, m);
}

static void what_is_asked_for_is_taken(void **state)
{
	host_is(HYBRID);
	takes_memory(MEMORY, mounts("/unified", "/memory"), 5);
	host_is(LEGACY "0::/\n");
	takes_v2(V2, mounts("/unified", "/memory"));
	takes_v2(V2, mounts(NULL, "/memory"));
}

static void refuses(struct cgroup_mounts m)
{
	struct hierarchy h;

	assert_int_equal(hierarchy_choose(MEMORY, &m, proc, &h), -ENOENT);
	assert_int_equal(h.error, -ENOENT);
	assert_int_equal(h.id, 0);
	assert_non_null(strstr(h.text, "cannot be had"));
}

static void the_memory_controller_that_is_not_there_is_refused(void **state)
{
	host_is("0::/init.scope\n");
	refuses(mounts("/sys/fs/cgroup", NULL));
	refuses(mounts("/sys/fs/cgroup", "/memory"));
	host_is(LEGACY);
	refuses(mounts("/sys/fs/cgroup", NULL));
	host_is(NULL);
	refuses(mounts(NULL, "/memory"));
	/* By itself it is not taken then, either. */
	takes_v2(AUTO, mounts(NULL, "/memory"));
	/* A hierarchy of that name is not the controller's. */
	host_is("3:name=memory:/\n4:memory-like:/\n");
	refuses(mounts(NULL, "/memory"));
}

static void controllers_may_share_a_hierarchy_and_paths_hold_anything(void **state)
{
	host_is("1:cpu:/5:memory:\n7:cpu,memory,pids:/a:b:memory:/c\n0::/x:y\n");
	takes_memory(MEMORY, mounts(NULL, "/memory"), 7);
	host_is("\n:\n::\n0:\nmemory\n9:memory:\n");
	takes_memory(MEMORY, mounts(NULL, "/memory"), 9);
}

static void the_faults_of_memory_stat_bring_their_hierarchy(void **state)
{
	struct cgroup_mounts m = mounts("/unified", "/memory");
	struct hierarchy h;

	host_is(HYBRID);
	assert_int_equal(hierarchy_choose(AUTO, &m, proc, &h), 0);
	assert_false(h.memory);
	hierarchy_follow_memory(&h, &m, proc);
	assert_true(h.memory);
	assert_int_equal(h.id, 5);
	assert_string_equal(h.mount, "/memory");
	/* If its number is not known it must not pass for v2. */
	assert_int_equal(hierarchy_choose(V2, &m, proc, &h), 0);
	host_is(NULL);
	hierarchy_follow_memory(&h, &m, proc);
	assert_true(h.memory);
	assert_int_equal(h.id, 0);
	assert_string_equal(h.mount, "/memory");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(v2_alone),
	    TEST(v1_alone),
	    TEST(v1_with_v2_mounted_by_some_program),
	    TEST(hybrid),
	    TEST(one_process_outside_of_the_root_is_enough),
	    TEST(a_part_of_v2_is_in_use),
	    TEST(what_is_asked_for_is_taken),
	    TEST(the_memory_controller_that_is_not_there_is_refused),
	    TEST(controllers_may_share_a_hierarchy_and_paths_hold_anything),
	    TEST(the_faults_of_memory_stat_bring_their_hierarchy),
	};
	return cmocka_run_group_tests_name("hierarchy", tests, NULL, NULL);
}
