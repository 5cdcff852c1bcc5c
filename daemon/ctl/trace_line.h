/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of `faultctl trace` as one line: text in the manner of perf script, or JSON. Pure.
 */
#pragma once

#include "bpf/trace_abi.h"
#include "daemon/base/strbuf.h"
#include "daemon/ctl/symbols.h"

enum trace_arch { TRACE_X86, TRACE_ARM64, TRACE_ARCH_UNKNOWN };

/* The architecture this program was built for. */
enum trace_arch trace_arch_here(void);

#define TRACE_DETAILS_BYTES 160

/* What a raw error code says. */
struct trace_meaning {
	const char *mode, *access, *kind;  /* static; as daemon/model/fault.h names them */
	char details[TRACE_DETAILS_BYTES]; /* names of the bits and fields, "PROT|WRITE|USER"; "" if none is set */
};

/* `mode` (enum fault_mode) is where the fault was taken, which the code alone does not tell on every architecture.
 * Any code is good. x86: the page-fault error code; arm64: ESR_EL1. */
void trace_meaning(enum trace_arch arch, uint32_t mode, uint64_t error_code, struct trace_meaning *ret);

/* Append a line with its line end. `cgroup` is a path or NULL: not shown. Control characters and invalid UTF-8 of
 * names are shown as \xNN in text, as JSON wants them (invalid bytes as U+FFFD) in JSON. */
void trace_line_text(struct strbuf *out, enum trace_arch arch, const struct trace_record *r,
		     const struct symbol_place *place, const char *cgroup);
void trace_line_json(struct strbuf *out, enum trace_arch arch, const struct trace_record *r,
		     const struct symbol_place *place, const char *cgroup);
