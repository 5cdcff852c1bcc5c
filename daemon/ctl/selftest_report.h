/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a self-test, or the same as JSON objects, one a line.
 */
#pragma once

#include <stdio.h>

#include "daemon/ctl/selftest.h"

struct selftest_report {
	FILE *to;
	bool json;
	bool with_daemon;
	unsigned count[SELFTEST_RESULTS];
};

void selftest_report_head(const struct selftest_report *report);
void selftest_report_row(struct selftest_report *report, const struct selftest_row *row);
void selftest_report_sum(const struct selftest_report *report);
/* All cases and what they are about. */
void selftest_report_list(FILE *to, bool json);
