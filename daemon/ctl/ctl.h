/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faultctl, the operator's tool: its verbs. Each returns the exit code (daemon/exit.h) and has said on standard error
 * what went wrong; argv[0] is the verb.
 */
#pragma once

#include <stdio.h>

#define CTL_SOCKET_DEFAULT "/run/faultd/control.sock"

int ctl_crashes(int argc, char **argv);
int ctl_decode(int argc, char **argv);
int ctl_selftest(int argc, char **argv);
int ctl_trace(int argc, char **argv);

/* Asks the daemon at `socket` (daemon/sink/control.h has the protocol); `request` is without the line end. FAULTD_OK
 * and the body as a stream that the caller closes, of which nothing is buffered yet (its descriptor may be read
 * instead); else the exit code, and the reason was told on standard error. Waits up to 10 seconds for the answer,
 * and for the body as long as it takes. */
int ctl_ask(const char *socket, const char *request, FILE **ret);
/* Appends ` key=value` to a request, the value escaped. Returns 0, or -E2BIG if it does not fit into `size` (then
 * nothing changed). */
int ctl_argument(char *request, size_t size, const char *key, const char *value);
