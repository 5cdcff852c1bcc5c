/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sink/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/clock.h"

/* Fields of /proc/self/stat, counted from 1; the name stands in parentheses and may hold spaces and parentheses itself. */
#define STAT_NAME 2
#define STAT_START_TIME 22

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Reads a small file of /proc as text; false if it cannot be read. */
static bool read_text(const char *path, char *text, size_t size)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, size - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

static void read_memory(struct process_stats *p)
{
	uint64_t virtual_pages = 0, resident_pages = 0;
	long page = sysconf(_SC_PAGESIZE);
	char text[128];

	if (page > 0 && read_text("/proc/self/statm", text, sizeof(text)))
		(void)sscanf(text, "%" SCNu64 " %" SCNu64, &virtual_pages, &resident_pages);
	p->virtual_bytes = virtual_pages * (uint64_t)page;
	p->resident_bytes = resident_pages * (uint64_t)page;
}

static uint64_t count_fds(void)
{
	cleanup(close_dir) DIR *dir = opendir("/proc/self/fd");
	uint64_t n = 0;

	if (!dir)
		return 0;
	for (const struct dirent *d = readdir(dir); d; d = readdir(dir))
		n += d->d_name[0] != '.';
	return n > 0 ? n - 1 : 0; /* without the one that looks */
}

static uint64_t start_ticks(void)
{
	char text[1024], *p;
	uint64_t ticks = 0;

	if (!read_text("/proc/self/stat", text, sizeof(text)))
		return 0;
	p = strrchr(text, ')');
	for (int field = STAT_NAME; p && field < STAT_START_TIME; field++)
		p = strchr(p + 1, ' ');
	if (p)
		(void)sscanf(p, " %" SCNu64, &ticks);
	return ticks;
}

/* The kernel counts from boot, suspend included; CLOCK_BOOTTIME does so too and, unlike the boot time in /proc/stat,
 * can be read where only /proc/self is visible. */
static uint64_t read_start(void)
{
	uint64_t now = clock_realtime_ns(), up = clock_read_ns(CLOCK_BOOTTIME), ticks = start_ticks();
	long hz = sysconf(_SC_CLK_TCK);

	if (hz <= 0 || ticks == 0 || now < up)
		return 0;
	return now - up + ticks * (NSEC_PER_SEC / (uint64_t)hz);
}

void process_read(struct process_stats *p)
{
	struct rlimit limit;

	p->cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	p->open_fds = count_fds();
	p->max_fds = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (uint64_t)limit.rlim_cur : 0;
	if (p->start_unix_ns == 0)
		p->start_unix_ns = read_start();
	read_memory(p);
}
