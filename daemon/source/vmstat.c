/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/source/vmstat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/cleanup.h"

int vmstat_vma_lock(const char *path, struct vma_lock_stats *ret)
{
	auto_fclose FILE *f = fopen(path ? path : "/proc/vmstat", "re");
	struct vma_lock_stats stats = {0};
	const struct {
		const char *name;
		uint64_t *value;
	} wanted[] = {
	    {"vma_lock_success", &stats.success},
	    {"vma_lock_abort", &stats.abort},
	    {"vma_lock_retry", &stats.retry},
	    {"vma_lock_miss", &stats.miss},
	};
	char line[256], name[64];
	unsigned found = 0;
	uint64_t value;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %" SCNu64, name, &value) != 2)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			if (strcmp(name, wanted[i].name) == 0) {
				*wanted[i].value = value;
				found++;
			}
	}
	if (found < ARRAY_SIZE(wanted))
		return -ENOENT;
	*ret = stats;
	return 0;
}
