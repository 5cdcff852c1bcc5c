/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who and what is behind the faults of a cgroup, from sampled ones: the processes and the places in programs that
 * fault most. Knows no clock and no descriptor; bounded memory whatever comes in.
 *
 * Both lists are kept by the space-saving algorithm: what makes up more than one in EVIDENCE_KEPT of the samples is
 * always among those kept, and its count is too high by at most `over`. Counts halve every EVIDENCE_HALF_LIFE_NS, so that
 * what is told is about the last minutes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/fault_abi.h"

#define EVIDENCE_TOP 5   /* told */
#define EVIDENCE_KEPT 32 /* kept, of each list and cgroup */
#define EVIDENCE_HALF_LIFE_NS UINT64_C(60000000000)
#define EVIDENCE_COMM_BYTES 64
#define EVIDENCE_BUILD_ID_BYTES 20

struct evidence_process {
	uint32_t pid;                   /* of the process, as the host sees it */
	char comm[EVIDENCE_COMM_BYTES]; /* valid UTF-8 */
	uint64_t samples, over;
};

/* A place in a program: an offset into the file with this build id. Never an address. */
struct evidence_site {
	bool known; /* false: in memory of no file, or of a file without build id; build_id and offset are then empty */
	char build_id[2 * EVIDENCE_BUILD_ID_BYTES + 1]; /* hexadecimal, as file(1) prints it */
	uint64_t offset;                                /* bytes into the file */
	char comm[EVIDENCE_COMM_BYTES];                 /* of a process that faulted there, valid UTF-8 */
	uint64_t samples, over;
};

struct evidence {
	uint64_t samples;                                /* that the lists were made of; 0: none */
	struct evidence_process processes[EVIDENCE_TOP]; /* most samples first */
	size_t n_processes;
	struct evidence_site sites[EVIDENCE_TOP];
	size_t n_sites;
};

/* ---- the book of all cgroups ---- */

struct evidence_sample {
	uint32_t pid;
	const char *comm;        /* valid UTF-8, cut where it is too long */
	bool known;              /* the site is */
	const uint8_t *build_id; /* EVIDENCE_BUILD_ID_BYTES, meaningful if known */
	uint64_t offset;
};

struct evidence_book;

/* For at most `max_cgroups`; the one that was sampled least recently gives way. -ENOMEM. */
int evidence_book_new(size_t max_cgroups, struct evidence_book **ret);
struct evidence_book *evidence_book_free(struct evidence_book *b);
/* `cgroup` is the label of its series. Where there is no memory for it the sample is left out. `now_ns` is monotonic. */
void evidence_book_add(struct evidence_book *b, const char *cgroup, const struct evidence_sample *sample,
		       uint64_t now_ns);
/* *ret is always filled, with samples 0 if there is nothing. */
void evidence_book_get(const struct evidence_book *b, const char *cgroup, uint64_t now_ns, struct evidence *ret);
