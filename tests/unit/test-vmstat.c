/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/source/vmstat.h"

static char path[] = "/tmp/faultd-vmstat-XXXXXX";

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void the_four_counters_are_read(void **state)
{
	struct vma_lock_stats v = {0};

	write_file("nr_free_pages 12\nvma_lock_success 18446744073709551615\nvma_lock_abort 3\nvma_lock_retry "
		   "0\nvma_lock_miss 5\n"
		   "pgfault 99\n");
	assert_int_equal(vmstat_vma_lock(path, &v), 0);
	assert_true(v.success == UINT64_MAX);
	assert_int_equal(v.abort, 3);
	assert_int_equal(v.retry, 0);
	assert_int_equal(v.miss, 5);
}

static void a_kernel_that_does_not_count_is_told(void **state)
{
	struct vma_lock_stats v = {.miss = 7};

	write_file("nr_free_pages 12\npgfault 99\nvma_lock_success 1\n");
	assert_int_equal(vmstat_vma_lock(path, &v), -ENOENT);
	assert_int_equal(v.miss, 7);
	assert_int_equal(vmstat_vma_lock("/nonexistent/vmstat", &v), -ENOENT);
}

static int make_path(void **state)
{
	int fd = mkstemp(path);

	return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_four_counters_are_read),
	    cmocka_unit_test(a_kernel_that_does_not_count_is_told),
	};

	return cmocka_run_group_tests_name("vmstat", tests, make_path, remove_path);
}
