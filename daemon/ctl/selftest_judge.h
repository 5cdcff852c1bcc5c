/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process of a case saw what it had to see.
 */
#pragma once

#include "daemon/base/strbuf.h"
#include "daemon/ctl/selftest.h"
#include "daemon/ctl/selftest_run.h"

/* PASS, SKIP or FAIL, the latter two with a text. `code` becomes the one that a handler was told, if it is one of the case's. */
enum selftest_result selftest_judge(const struct selftest_case *c, bool survive, const struct witness *w,
				    const struct selftest_end *end, const char **code, struct strbuf *text);
/* What a case has to come to, in the words of the table; `code` NULL: not known yet. */
void selftest_expected(const struct selftest_case *c, const char *code, struct strbuf *text);
/* The code under which the daemon has to count it. */
const char *selftest_counted_code(const struct selftest_case *c, const char *code);
