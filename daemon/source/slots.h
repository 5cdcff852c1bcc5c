/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the slot protocol of bpf/fault_abi.h: reads counters, follows claims, takes slots back. Works on
 * plain memory and three map operations, so that it can be tested with a program played by the test.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/bad_access_abi.h"
#include "bpf/fault_abi.h"
#include "daemon/model/growth.h"

struct slots;

/* Memory shared with the programs; borrowed. */
struct slots_memory {
	uint32_t cpus; /* 0: no program counts page faults, cells, cache and touched are not there */
	uint32_t slots;
	struct fault_cell *cells;    /* [cpu][slot] */
	struct slot_cache *cache;    /* [cpu], of the counting programs */
	uint64_t *owner;             /* [slot] */
	uint64_t *touched;           /* [cpu][FAULT_TOUCHED_WORDS(slots)] */
	struct bad_cell *bad;        /* [slot]; NULL: no program counts bad accesses */
	uint64_t *bad_touched;       /* [FAULT_TOUCHED_WORDS(slots)]; goes with `bad` */
	struct bad_latency *latency; /* [slot]; NULL: not measured; goes with `bad` */
};

/* Operations on maps that are no memory; each returns 0 or -errno. */
struct slots_ops {
	int (*hash_get)(void *userdata, uint64_t id, uint32_t *ret_slot);
	int (*hash_set)(void *userdata, uint64_t id, uint32_t slot);
	int (*hash_delete)(void *userdata, uint64_t id);
	int (*push_free)(void *userdata, uint32_t slot);
	void *userdata;
};

typedef void (*slots_growth_fn)(uint64_t id, const struct growth *growth, void *userdata);

/* -ENOMEM. Slots 1 and up are pushed as free. */
int slots_new(const struct slots_memory *memory, const struct slots_ops *ops, struct slots **ret);
struct slots *slots_free(struct slots *s);

uint32_t slots_used(const struct slots *s);

/* Reports what each cgroup counted since the last call, page faults and bad accesses each on their own; id 0 for slot 0. A count of
 * bad accesses that went down says nothing until it has caught up. */
void slots_collect(struct slots *s, slots_growth_fn growth, void *userdata);

/* The cgroup died, or shall count in slot 0 from now on. 1 if it had a slot, which drains: slots_reclaim() will tell; 0
 * if it had none; -errno. */
int slots_release(struct slots *s, uint64_t id);
int slots_fold(struct slots *s, uint64_t id);
/* A folded id may claim a slot again. 0 or -errno. */
int slots_unfold(struct slots *s, uint64_t id);
/* Advances draining by one round; see probe_reclaim(). */
void slots_reclaim(struct slots *s, slots_growth_fn growth, void (*drained)(uint64_t id, void *userdata),
		   void *userdata);
