/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a signal and its code to the class of a bad access: pure, for programs and tests.
 */
#pragma once

#include "bpf/bad_access_abi.h"

/* Bits of `signals` sets: 1 << enum bad_signal. BAD_SIGNALS for a signal that is none of these. Numbers are those of x86, arm64 and
 * riscv, which agree. */
static inline __u32 bad_signal_of(int signal)
{
	switch (signal) {
	case 11:
		return BAD_SEGV;
	case 7:
		return BAD_BUS;
	case 4:
		return BAD_ILL;
	case 8:
		return BAD_FPE;
	case 5:
		return BAD_TRAP;
	case 31:
		return BAD_SYS;
	case 6:
		return BAD_ABRT;
	}
	return BAD_SIGNALS;
}

static inline __u32 bad_signal_base(__u32 signal)
{
	switch (signal) {
	case BAD_BUS:
		return BAD_BASE_BUS;
	case BAD_ILL:
		return BAD_BASE_ILL;
	case BAD_FPE:
		return BAD_BASE_FPE;
	case BAD_TRAP:
		return BAD_BASE_TRAP;
	case BAD_SYS:
		return BAD_BASE_SYS;
	case BAD_ABRT:
		return BAD_BASE_ABRT;
	}
	return BAD_BASE_SEGV;
}

static inline __u32 bad_signal_codes(__u32 signal)
{
	switch (signal) {
	case BAD_BUS:
		return BAD_CODES_BUS;
	case BAD_ILL:
		return BAD_CODES_ILL;
	case BAD_FPE:
		return BAD_CODES_FPE;
	case BAD_TRAP:
		return BAD_CODES_TRAP;
	case BAD_SYS:
		return BAD_CODES_SYS;
	case BAD_ABRT:
		return BAD_CODES_ABRT;
	}
	return BAD_CODES_SEGV;
}

#define BAD_SI_KERNEL 0x80

/* `sent`: a process sent it, whatever the code says. Codes that are not positive are only ever sent. */
static inline __u32 bad_class(__u32 signal, int code, int sent)
{
	__u32 base = bad_signal_base(signal), codes = bad_signal_codes(signal);

	if (sent || code <= 0)
		return base + BAD_CODE_SENT(codes);
	if (code == BAD_SI_KERNEL)
		return base + BAD_CODE_KERNEL(codes);
	if (signal == BAD_ABRT)
		return base + BAD_CODE_OTHER;
	return base + ((__u32)code <= codes ? (__u32)code : BAD_CODE_OTHER);
}
