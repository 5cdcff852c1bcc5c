/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The `info` argument of the signal tracepoints: NULL, 1 or a pointer, which newer verifiers take for a number.
 */
#pragma once

#include "bpf/bad_access_class.h"
#include "bpf/ktypes.h"

static __always_inline int signal_code(struct kernel_siginfo *info)
{
	if ((unsigned long)info == 0)
		return 0; /* SI_USER */
	if ((unsigned long)info == 1)
		return BAD_SI_KERNEL;
	return BPF_CORE_READ(info, si_code);
}
