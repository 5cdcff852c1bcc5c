/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#define DURATION_TEXT_BYTES 24

/* "10s", "1m", "250ms": the largest unit that divides the length, so that different lengths never look the same. `text` has
 * DURATION_TEXT_BYTES; returned for use in an expression. */
static inline const char *duration_text(uint64_t ns, char *text)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = {{UINT64_C(3600000000000), "h"}, {UINT64_C(60000000000), "m"}, {UINT64_C(1000000000), "s"},
		     {UINT64_C(1000000), "ms"},      {UINT64_C(1000), "us"},       {1, "ns"}};
	unsigned u = 0;

	while (ns == 0 ? u < 2 : ns % units[u].ns != 0)
		u++;
	snprintf(text, DURATION_TEXT_BYTES, "%llu%s", (unsigned long long)(ns / units[u].ns), units[u].name);
	return text;
}
