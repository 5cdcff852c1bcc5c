/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/base/trim.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct region {
	uintptr_t start, end;
	bool clean_file; /* read-only mapping of a file */
};

static bool parse_region(const char *line, struct region *ret)
{
	char mode[5] = "", path[2] = "";
	uintptr_t start, end;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %1s", &start, &end, mode, path) < 3)
		return false;
	*ret = (struct region){.start = start, .end = end, .clean_file = mode[1] != 'w' && path[0] == '/'};
	return true;
}

/* Only regions without a single private copy are dropped: relocated pages of a read-only segment (RELRO) exist nowhere
 * else. */
static void drop(const struct region *r, unsigned long anonymous_kib)
{
	if (r->clean_file && anonymous_kib == 0)
		(void)madvise((void *)r->start, r->end - r->start, MADV_DONTNEED);
}

void trim_memory(void)
{
	FILE *smaps;
	char line[512];
	struct region region = {0}, next;
	unsigned long kib;

	malloc_trim(0);
	smaps = fopen("/proc/self/smaps", "re");
	if (!smaps)
		return;
	while (fgets(line, sizeof(line), smaps)) {
		if (parse_region(line, &next))
			region = next;
		else if (sscanf(line, "Anonymous: %lu", &kib) == 1)
			drop(&region, kib);
	}
	fclose(smaps);
}
