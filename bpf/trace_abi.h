/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What bpf/trace.bpf.c and `faultctl trace` agree on. Both come from one build and live in one process, so there is no
 * version.
 */
#pragma once

#include <linux/types.h>

enum trace_type { TRACE_FAULT, TRACE_BAD, TRACE_TYPES };

#define TRACE_COMM_BYTES 16
#define TRACE_MODULE_BYTES 64

/* Bits of trace_record.flags */
#define TRACE_HAS_ADDRESS 1u
#define TRACE_HAS_ERROR_CODE 2u
#define TRACE_HAS_MAP 4u /* the mapping that holds `ip` was looked up: `module` and `module_offset` are its file's */
#define TRACE_CHECK_CGROUP 8u /* the cgroup has no verdict yet: the reader decides */

/* Map trace_ring: these, whole. */
struct trace_record {
	__u32 type; /* enum trace_type */
	__u32 flags;
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 cgroup_id;
	__u32 tgid, tid; /* as the host sees them */
	__u32 cpu;
	__u32 mode; /* enum fault_mode; that of a bad access is always user */
	__u64 address;
	__u64 ip;
	__u64 error_code;    /* as the hardware gave it; of a bad access as the kernel keeps it for the signal */
	__u32 class;         /* TRACE_BAD: of bpf/bad_access_abi.h */
	__u32 outcome;       /* TRACE_BAD: enum bad_outcome */
	__u64 module_offset; /* of ip in the file */
	char comm[TRACE_COMM_BYTES];
	/* The last component of the file's name, perhaps cut; "" for a mapping without file. */
	char module[TRACE_MODULE_BYTES];
};

/* Map trace_cpus: one per CPU. The two kinds have a limit of their own each, so that neither crowds the other out. */
struct trace_cpu {
	__u64 next_ns[TRACE_TYPES];  /* the limit's state: when the allowance will be whole again */
	__u64 left_out[TRACE_TYPES]; /* beyond the limit */
	__u64 lost[TRACE_TYPES];     /* the ring was full */
};

/* Map trace_cgroups: hash of cgroup id to __u8, 1 wanted, 0 not. */
#define TRACE_CGROUPS_MAX 65536

_Static_assert(sizeof(struct trace_record) == 80 + TRACE_COMM_BYTES + TRACE_MODULE_BYTES, "trace_record has no holes");
