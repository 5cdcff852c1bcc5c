/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Globs over cgroup paths. `*` and `?` stay within one component, `**` as a whole component crosses any number of them
 * (none too), `[...]` and `\` as in fnmatch(3). A pattern matches the whole path. Time is bounded by the product of the
 * lengths.
 */
#pragma once

#include <stdbool.h>

/* NULL if the pattern is well formed, else a static text that says what is wrong and what is allowed. */
const char *glob_check(const char *pattern);
bool glob_match(const char *pattern, const char *path);
