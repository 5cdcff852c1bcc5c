/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the local socket (daemon/sink/control.h has the protocol), from bytes to what is asked. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control_request {
	enum { CONTROL_CRASHES, CONTROL_BAD } verb;
	const char *cgroup;     /* in the line; NULL: not given. A glob for `crashes`, a path for `bad` */
	uint64_t since_unix_ns; /* 0: all */
	bool follow;
	bool json;
};

/* `line` has `len` bytes and room for one more; it is taken apart and holds what *ret points to. NULL, or a static
 * text that says what is wrong and what is allowed; then *ret is undefined. */
const char *control_request_parse(char *line, size_t len, struct control_request *ret);
