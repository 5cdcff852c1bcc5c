/* SPDX-License-Identifier: Apache-2.0 */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "daemon/base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static int max_level = LOG_INFO;
static bool to_journal;
static bool to_terminal;

/* JOURNAL_STREAM names the device and inode of the journal's socket; it is inherited by children whose standard error
 * may be something else by now, hence the comparison. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uintmax_t device = 0, inode = 0;
	struct stat st;

	if (!stream || sscanf(stream, "%" SCNuMAX ":%" SCNuMAX, &device, &inode) != 2)
		return false;
	return fstat(STDERR_FILENO, &st) == 0 && (uintmax_t)st.st_dev == device && (uintmax_t)st.st_ino == inode;
}

void log_init(void)
{
	to_journal = stderr_is_journal();
	to_terminal = isatty(STDERR_FILENO);
}

void log_set_max_level(int priority)
{
	max_level = priority;
}

int log_get_max_level(void)
{
	return max_level;
}

bool log_to_journal(void)
{
	return to_journal;
}

static const char *level_name(int priority)
{
	static const char *const names[] = {"emergency", "alert",  "critical", "error",
					    "warning",   "notice", "info",     "debug"};
	return names[priority & LOG_PRIMASK];
}

static void write_journal(int priority, int error, const char *file, int line, const char *func, const char *text)
{
	(void)sd_journal_send("MESSAGE=%s", text, "PRIORITY=%d", priority, "CODE_FILE=%s", file, "CODE_LINE=%d", line,
			      "CODE_FUNC=%s", func, "SYSLOG_IDENTIFIER=faultd", error ? "ERRNO=%d" : NULL, error, NULL);
}

static void write_stderr(int priority, const char *text)
{
	/* One write per line, so that lines of several processes do not mix; a full pipe loses the line, not the
	 * daemon. */
	char out[LINE_MAX_BYTES + 32];
	int n = snprintf(out, sizeof(out), "%s%s: %s\n", to_terminal ? "" : "faultd: ", level_name(priority), text);

	if (n > 0 && write(STDERR_FILENO, out, (size_t)n < sizeof(out) ? (size_t)n : sizeof(out) - 1) < 0)
		return;
}

int log_full(int priority, int error, const char *file, int line, const char *func, const char *format, ...)
{
	char text[LINE_MAX_BYTES];
	va_list args;

	error = abs(error);
	if (priority > max_level)
		return -error;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);

	if (to_journal)
		write_journal(priority, error, file, line, func, text);
	else
		write_stderr(priority, text);
	return -error;
}

void log_error_lines_full(char *lines, const char *file, int line, const char *func)
{
	char *text;

	while (lines && (text = strsep(&lines, "\n")))
		if (*text)
			log_full(LOG_ERR, 0, file, line, func, "%s", text);
}
