/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the decoders of daemon/model/fault_code.h are made of.
 */
#pragma once

#include <stddef.h>

#include "daemon/model/fault_code.h"

/* The first one that is of no use in FAULT_CLASS() stands for what the code does not tell. */
#define MODE_UNKNOWN FAULT_MODES
#define ACCESS_UNKNOWN FAULT_ACCESSES
#define KIND_UNKNOWN FAULT_KINDS

#define SIGNAL_MISSING "SEGV_MAPERR if nothing maps the address"
#define SIGNAL_DENIED "SEGV_ACCERR if the mapping forbids it"
#define SIGNAL_EITHER SIGNAL_MISSING ", " SIGNAL_DENIED

struct fault_bit {
	uint64_t bit;
	const char *name;  /* in details */
	const char *words; /* in the meaning; NULL: mode, access or kind says it */
};

/* A cause that is told by number. */
struct fault_cause {
	uint64_t code;
	const char *name, *words;
	unsigned char access, kind; /* enum fault_access, fault_kind, or unknown */
	bool is_page_fault;
	const char *signal;
};

void fault_code_class(struct fault_code *c, uint32_t mode, uint32_t access, uint32_t kind);
/* Append one to the list. */
void fault_code_detail(struct fault_code *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fault_code_words(struct fault_code *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Names of the bits that are set, in details. Returns the bits of `code` that have no name. */
uint64_t fault_code_names(struct fault_code *c, uint64_t code, const struct fault_bit *bits, size_t n);
/* What is to be said of them, in the meaning. */
void fault_code_bit_words(struct fault_code *c, uint64_t code, const struct fault_bit *bits, size_t n);
/* NULL: no such cause. */
const struct fault_cause *fault_cause_find(const struct fault_cause *causes, size_t n, uint64_t code);
/* All of the result, but that the caller may say more. `what` names the cause where `cause` is NULL. */
void fault_code_cause(struct fault_code *c, uint32_t mode, const struct fault_cause *cause, const char *what,
		      uint64_t code);

/* Of fault_code_arm.c. */
void fault_code_arm64(const struct fault_raw *raw, struct fault_code *ret);
void fault_code_arm(const struct fault_raw *raw, struct fault_code *ret);
/* Of fault_code_ibm.c. */
void fault_code_s390(const struct fault_raw *raw, struct fault_code *ret);
void fault_code_powerpc(const struct fault_raw *raw, struct fault_code *ret);
