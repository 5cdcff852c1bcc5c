/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exit codes, declared once: --help is made from this list. Values follow sysexits.h where one
 * fits.
 *
 * EXIT_CODES(X): X(name, value, meaning)
 */
#pragma once

#define EXIT_CODES(X)                                                                                         \
	X(FAULTD_OK, 0, "ended on request, or the check found nothing wrong")                                 \
	X(FAULTD_FAILED, 1, "internal error; the log says what")                                              \
	X(FAULTD_USAGE, 64, "wrong command line")                                                             \
	X(FAULTD_NO_SUPPORT, 69,                                                                              \
	  "this kernel offers none of the ways to see page faults that the configuration allows")             \
	X(FAULTD_NO_RESOURCE, 71, "the system refused something: a scrape address is taken, memory is short") \
	X(FAULTD_NO_PERMISSION, 77, "not permitted; CAP_BPF and CAP_PERFMON are needed")                      \
	X(FAULTD_BAD_CONFIG, 78, "the configuration is wrong; each error was reported with file, line and column")

enum exit_code {
#define EXIT_CODE(name, value, meaning) name = value,
	EXIT_CODES(EXIT_CODE)
#undef EXIT_CODE
};
