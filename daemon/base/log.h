/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging: to the journal with structured fields when standard error is the journal, else plain lines on standard
 * error.
 *
 * The place that decides logs, once. If the daemon goes on after a failure, the text says "ignoring" and a counter
 * moves. A function either logs or returns an error, never both twice.
 */
#pragma once

#include <stdbool.h>
#include <syslog.h>

/* Picks the target by looking at standard error once. Call before the first line; without it lines go to standard
 * error. */
void log_init(void);

/* Highest (least urgent) syslog priority that is written; LOG_INFO at start. */
void log_set_max_level(int priority);
int log_get_max_level(void);

/* True when lines go to the journal. */
bool log_to_journal(void);

/* One line. `error` is 0 or a (positive or negative) errno, recorded as the ERRNO field and not added to the text.
 * Returns -|error|, so `return log_full(LOG_ERR, -r, ...)` is a whole error path. */
int log_full(int priority, int error, const char *file, int line, const char *func, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Each line of `lines` (NULL: none) on its own, at priority error. The text is cut up. */
void log_error_lines_full(char *lines, const char *file, int line, const char *func);

#define log_error_lines(lines) log_error_lines_full((lines), __FILE__, __LINE__, __func__)
#define log_at(priority, error, ...) log_full((priority), (error), __FILE__, __LINE__, __func__, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, 0, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, 0, __VA_ARGS__)
#define log_notice(...) log_at(LOG_NOTICE, 0, __VA_ARGS__)
#define log_warning(...) log_at(LOG_WARNING, 0, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERR, 0, __VA_ARGS__)
#define log_warning_errno(error, ...) log_at(LOG_WARNING, (error), __VA_ARGS__)
#define log_error_errno(error, ...) log_at(LOG_ERR, (error), __VA_ARGS__)
