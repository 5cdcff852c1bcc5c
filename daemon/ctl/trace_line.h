/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of `faultctl trace` as one line: text in the manner of perf script, or JSON. Pure.
 */
#pragma once

#include "bpf/trace_abi.h"
#include "daemon/base/strbuf.h"
#include "daemon/ctl/symbols.h"
#include "daemon/model/fault_code.h"

/* Append a line with its line end. `cgroup` is a path or NULL: not shown. Control characters and invalid UTF-8 of
 * names are shown as \xNN in text, as JSON wants them (invalid bytes as U+FFFD) in JSON. */
void trace_line_text(struct strbuf *out, enum fault_arch arch, const struct trace_record *r,
		     const struct symbol_place *place, const char *cgroup);
void trace_line_json(struct strbuf *out, enum fault_arch arch, const struct trace_record *r,
		     const struct symbol_place *place, const char *cgroup);
