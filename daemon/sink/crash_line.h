/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crash as a line for people and as a JSON object. Pure but for the time zone. All is valid UTF-8, and characters
 * that steer a terminal are escaped, in the JSON object as well.
 */
#pragma once

#include <stdbool.h>

#include "daemon/base/strbuf.h"
#include "daemon/model/crash.h"

/* One line with a line end: local time, cgroup or unit, comm[pid], signal and code, what was accessed and where,
 * fingerprint. */
void crash_line_text(const struct crash *c, bool addresses, struct strbuf *out);
/* One JSON object (RFC 8259) with a line end. Without `addresses` the keys that hold raw addresses are left out, as
 * is what is empty or not known. Addresses, error codes and offsets are text in hexadecimal. */
void crash_line_json(const struct crash *c, bool addresses, struct strbuf *out);
/* The crash in one sentence without addresses, for a message: "myapp[123] of myapp.service: SIGSEGV (maperr), ...". */
void crash_line_message(const struct crash *c, struct strbuf *out);
