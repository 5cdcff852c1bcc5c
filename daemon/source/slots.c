/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/source/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/table.h"

/* Rounds of slots_reclaim() that must pass after a slot was taken from the programs before none can be inside any more:
 * a program that found the slot just before runs for microseconds, or is preempted for less than a round. */
#define DRAIN_ROUNDS 2

struct slot {
	uint64_t id;   /* 0: free, or claimed since the last collect */
	uint8_t drain; /* rounds of draining so far + 1; 0: in use */
	bool listed;   /* has growth in this collect */
};

struct slots {
	struct slots_memory m;
	struct slots_ops ops;
	uint32_t words;
	uint32_t used;
	uint32_t draining;
	struct slot *slot;
	struct table *by_id;
	uint32_t *seen;   /* [cpu][slot][class]: low half of the value read last */
	uint64_t *again;  /* [cpu][word]: cells to read once more next time, see read_cpu() */
	uint64_t *growth; /* [slot][class] of the running collect */
	uint32_t *list;   /* slots with growth */
	uint32_t listed;

	struct bad_counts *bad_seen; /* [slot]: values read last; those of slots without bad accesses cost no memory */
	struct bad_latencies *latency_seen; /* [slot]: the same */
	uint64_t *bad_again;                /* [word]: slots whose claim was not visible yet */
};

int slots_new(const struct slots_memory *memory, const struct slots_ops *ops, struct slots **ret)
{
	struct slots *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->m = *memory;
	s->ops = *ops;
	s->words = FAULT_TOUCHED_WORDS(memory->slots);
	if (memory->bad) {
		s->bad_seen = calloc(memory->slots, sizeof(*s->bad_seen));
		s->latency_seen = calloc(memory->slots, sizeof(*s->latency_seen));
		s->bad_again = calloc(s->words, sizeof(*s->bad_again));
	}
	s->slot = calloc(memory->slots, sizeof(*s->slot));
	s->seen = calloc((size_t)memory->cpus * memory->slots + 1, FAULT_CLASSES * sizeof(*s->seen));
	s->again = calloc((size_t)memory->cpus * s->words + 1, sizeof(*s->again));
	s->growth = calloc(memory->slots, FAULT_CLASSES * sizeof(*s->growth));
	s->list = calloc(memory->slots, sizeof(*s->list));
	r = s->slot && s->seen && s->again && s->growth && s->list ? 0 : -ENOMEM;
	if (memory->bad && !(s->bad_seen && s->latency_seen && s->bad_again))
		r = -ENOMEM;
	if (r == 0)
		r = table_new(memory->slots, &s->by_id);
	for (uint32_t slot = memory->slots; r == 0 && slot-- > 1;)
		r = s->ops.push_free(s->ops.userdata, slot);
	if (r < 0) {
		slots_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct slots *slots_free(struct slots *s)
{
	if (s) {
		free(s->slot);
		free(s->seen);
		free(s->again);
		free(s->growth);
		free(s->list);
		free(s->bad_seen);
		free(s->latency_seen);
		free(s->bad_again);
		table_free(s->by_id);
		free(s);
	}
	return NULL;
}

uint32_t slots_used(const struct slots *s)
{
	return s->used;
}

/* ---- reading ---- */

static void read_cell(struct slots *s, uint32_t cpu, uint32_t slot)
{
	size_t at = (size_t)cpu * s->m.slots + slot;
	const struct fault_cell *cell = &s->m.cells[at];
	uint32_t *seen = &s->seen[at * FAULT_CLASSES];
	uint64_t *growth = &s->growth[(size_t)slot * FAULT_CLASSES];

	for (uint32_t c = 0; c < FAULT_CLASSES; c++) {
		uint32_t now = (uint32_t)__atomic_load_n(&cell->count[c], __ATOMIC_RELAXED);
		/* Low halves suffice: a CPU does not take 2^32 faults of one class between two collects. */
		uint32_t grown = now - seen[c];

		if (!grown)
			continue;
		seen[c] = now;
		growth[c] += grown;
		if (!s->slot[slot].listed) {
			s->slot[slot].listed = true;
			s->list[s->listed++] = slot;
		}
	}
}

static void read_word(struct slots *s, uint32_t cpu, uint32_t word, uint64_t bits)
{
	for (; bits; bits &= bits - 1) {
		uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);

		if (slot < s->m.slots)
			read_cell(s, cpu, slot);
	}
}

/* FAULT_SLOT_OTHER if the CPU remembers none. */
static uint32_t present_slot(const struct slots *s, uint32_t cpu)
{
	uint32_t slot = __atomic_load_n(&s->m.cache[cpu].cell, __ATOMIC_ACQUIRE) - cpu * s->m.slots;

	return slot < s->m.slots ? slot : FAULT_SLOT_OTHER;
}

static void read_now_and_again(struct slots *s, uint32_t cpu, uint32_t slot)
{
	if (slot == FAULT_SLOT_OTHER)
		return;
	s->again[(size_t)cpu * s->words + slot / 64] |= UINT64_C(1) << (slot % 64);
	read_cell(s, cpu, slot);
}

/* The bits of a CPU say where it has turned to since the last time. What it is turned to now counts on without setting a bit
 * again, so that slot is read always, and once more after the CPU has left it; the look before the bits are taken is for a
 * CPU that leaves while they are. */
static void read_cpu(struct slots *s, uint32_t cpu)
{
	uint64_t *touched = &s->m.touched[(size_t)cpu * s->words];
	uint64_t *again = &s->again[(size_t)cpu * s->words];
	uint32_t at_first = present_slot(s, cpu);

	for (uint32_t word = 0; word < s->words; word++) {
		uint64_t bits = __atomic_load_n(&touched[word], __ATOMIC_RELAXED);
		uint64_t before = again[word];

		if (bits)
			bits = __atomic_exchange_n(&touched[word], 0, __ATOMIC_ACQ_REL);
		again[word] = bits;
		read_word(s, cpu, word, bits | before);
	}
	read_now_and_again(s, cpu, at_first);
	read_now_and_again(s, cpu, present_slot(s, cpu));
	read_cell(s, cpu, FAULT_SLOT_OTHER);
}

/* Growth of a slot whose claim is not visible yet stays in the list for the next time: it has no name. */
static void report(struct slots *s, slots_growth_fn growth, void *userdata)
{
	uint32_t kept = 0;

	for (uint32_t at = 0; at < s->listed; at++) {
		uint32_t slot = s->list[at];
		uint64_t *counts = &s->growth[(size_t)slot * FAULT_CLASSES];

		if (slot != FAULT_SLOT_OTHER && s->slot[slot].id == 0) {
			s->list[kept++] = slot;
			continue;
		}
		s->slot[slot].listed = false;
		growth(s->slot[slot].id, &(struct growth){.faults = counts}, userdata);
		memset(counts, 0, FAULT_CLASSES * sizeof(*counts));
	}
	s->listed = kept;
}

/* ---- bad accesses ---- */

/* What `now` is above `*seen`; below it there is a debt, which later ones pay. */
static uint64_t grown_above(uint64_t *seen, int64_t now)
{
	int64_t grown = now - (int64_t)*seen;

	if (grown <= 0)
		return 0;
	*seen = (uint64_t)now;
	return (uint64_t)grown;
}

static bool read_bad(struct slots *s, uint32_t slot, struct bad_counts *ret)
{
	const struct bad_cell *cell = &s->m.bad[slot];
	bool any = false;

	for (uint32_t o = 0; o < BAD_OUTCOMES; o++)
		for (uint32_t c = 0; c < BAD_CLASSES; c++) {
			int64_t now = __atomic_load_n(&cell->count[o][c], __ATOMIC_RELAXED);

			ret->count[o][c] = grown_above(&s->bad_seen[slot].count[o][c], now);
			any |= ret->count[o][c] > 0;
		}
	return any;
}

static bool read_latency(struct slots *s, uint32_t slot, struct bad_latencies *ret)
{
	const struct bad_latency *from = &s->m.latency[slot];
	struct bad_latencies *seen = &s->latency_seen[slot];
	bool any = false;

	for (uint32_t b = 0; b < BAD_LATENCY_BUCKETS; b++) {
		ret->bucket[b] =
		    grown_above(&seen->bucket[b], (int64_t)__atomic_load_n(&from->bucket[b], __ATOMIC_RELAXED));
		any |= ret->bucket[b] > 0;
	}
	ret->sum_ns = grown_above(&seen->sum_ns, (int64_t)__atomic_load_n(&from->sum_ns, __ATOMIC_RELAXED));
	return any;
}

static void report_bad(struct slots *s, uint32_t slot, slots_growth_fn growth, void *userdata)
{
	struct bad_counts bad;
	struct bad_latencies latencies;
	struct growth g = {0};

	if (read_bad(s, slot, &bad))
		g.bad = &bad;
	if (s->m.latency && read_latency(s, slot, &latencies))
		g.latencies = &latencies;
	if (g.bad || g.latencies)
		growth(s->slot[slot].id, &g, userdata);
}

/* Programs count first and set the bit then, so a bit taken away before the cell is read hides nothing. */
static void collect_bad(struct slots *s, slots_growth_fn growth, void *userdata)
{
	for (uint32_t word = 0; s->m.bad && word < s->words; word++) {
		uint64_t bits = s->bad_again[word];

		if (__atomic_load_n(&s->m.bad_touched[word], __ATOMIC_RELAXED))
			bits |= __atomic_exchange_n(&s->m.bad_touched[word], 0, __ATOMIC_ACQ_REL);
		s->bad_again[word] = 0;
		for (; bits; bits &= bits - 1) {
			uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);

			if (slot >= s->m.slots)
				continue;
			if (slot != FAULT_SLOT_OTHER && s->slot[slot].id == 0)
				s->bad_again[word] |= UINT64_C(1) << (slot % 64);
			else
				report_bad(s, slot, growth, userdata);
		}
	}
}

static void empty_bad(struct slots *s, uint32_t slot)
{
	if (!s->m.bad)
		return;
	memset(&s->m.bad[slot], 0, sizeof(s->m.bad[slot]));
	memset(&s->bad_seen[slot], 0, sizeof(s->bad_seen[slot]));
	memset(&s->latency_seen[slot], 0, sizeof(s->latency_seen[slot]));
	if (s->m.latency)
		memset(&s->m.latency[slot], 0, sizeof(s->m.latency[slot]));
}

/* ---- claims ---- */

/* From here on programs that look find nothing of this slot; one that looked just before may still write an id. */
static void close_slot(struct slots *s, uint32_t slot)
{
	__atomic_store_n(&s->m.owner[slot], 0, __ATOMIC_RELEASE);
	for (uint32_t cpu = 0; cpu < s->m.cpus; cpu++)
		__atomic_store_n(&s->m.cells[(size_t)cpu * s->m.slots + slot].id, 0, __ATOMIC_RELEASE);
}

static void begin_drain(struct slots *s, uint32_t slot)
{
	close_slot(s, slot);
	s->slot[slot].drain = 1;
	s->draining++;
	table_remove(s->by_id, s->slot[slot].id);
}

static void follow_claim(struct slots *s, uint32_t slot, uint64_t id)
{
	uint32_t current = 0;

	s->slot[slot] = (struct slot){.id = id};
	s->used++;
	if (table_put(s->by_id, id, &s->slot[slot]) < 0 || s->ops.hash_get(s->ops.userdata, id, &current) < 0 ||
	    current != slot)
		/* It was folded or released between the program's insert and now: the hash is what counts. */
		begin_drain(s, slot);
}

static void follow_claims(struct slots *s)
{
	for (uint32_t slot = 1; slot < s->m.slots; slot++) {
		uint64_t id = __atomic_load_n(&s->m.owner[slot], __ATOMIC_ACQUIRE);

		if (id && !s->slot[slot].id)
			follow_claim(s, slot, id);
	}
}

void slots_collect(struct slots *s, slots_growth_fn growth, void *userdata)
{
	follow_claims(s);
	for (uint32_t cpu = 0; cpu < s->m.cpus; cpu++)
		read_cpu(s, cpu);
	/* A slot claimed between the two loops has growth but no name yet. */
	follow_claims(s);
	report(s, growth, userdata);
	collect_bad(s, growth, userdata);
}

/* ---- giving back ---- */

static void ask_anew(struct slots *s, uint64_t id)
{
	for (uint32_t cpu = 0; cpu < s->m.cpus; cpu++)
		if (id == 0 || __atomic_load_n(&s->m.cache[cpu].folded, __ATOMIC_RELAXED) == id)
			__atomic_store_n(&s->m.cache[cpu].folded, 0, __ATOMIC_RELAXED);
}

/* 1 if the id had a slot, 0 if not. */
static int drain_slot_of(struct slots *s, uint64_t id)
{
	struct slot *slot = table_get(s->by_id, id);

	if (!slot)
		return 0;
	begin_drain(s, (uint32_t)(slot - s->slot));
	return 1;
}

int slots_release(struct slots *s, uint64_t id)
{
	int r = s->ops.hash_delete(s->ops.userdata, id);

	if (r < 0 && r != -ENOENT)
		return r;
	return drain_slot_of(s, id);
}

int slots_fold(struct slots *s, uint64_t id)
{
	int r = s->ops.hash_set(s->ops.userdata, id, FAULT_SLOT_OTHER);

	return r < 0 ? r : drain_slot_of(s, id);
}

int slots_unfold(struct slots *s, uint64_t id)
{
	int r = s->ops.hash_delete(s->ops.userdata, id);

	ask_anew(s, id);
	return r == -ENOENT ? 0 : r;
}

static void empty_slot(struct slots *s, uint32_t slot)
{
	for (uint32_t cpu = 0; cpu < s->m.cpus; cpu++) {
		size_t at = (size_t)cpu * s->m.slots + slot;

		memset(&s->m.cells[at], 0, sizeof(s->m.cells[at]));
		memset(&s->seen[at * FAULT_CLASSES], 0, FAULT_CLASSES * sizeof(*s->seen));
		s->again[(size_t)cpu * s->words + slot / 64] &= ~(UINT64_C(1) << (slot % 64));
	}
	empty_bad(s, slot);
	s->slot[slot] = (struct slot){0};
	s->used--;
	s->draining--;
}

void slots_reclaim(struct slots *s, slots_growth_fn growth, void (*drained)(uint64_t id, void *userdata),
		   void *userdata)
{
	bool freed = false;

	if (s->draining == 0)
		return;
	for (uint32_t slot = 1; slot < s->m.slots; slot++) {
		uint64_t id = s->slot[slot].id;

		if (!s->slot[slot].drain)
			continue;
		if (s->slot[slot].drain++ <= DRAIN_ROUNDS) {
			close_slot(s, slot);
			continue;
		}
		for (uint32_t cpu = 0; cpu < s->m.cpus; cpu++)
			read_cell(s, cpu, slot);
		report(s, growth, userdata);
		if (s->m.bad)
			report_bad(s, slot, growth, userdata);
		empty_slot(s, slot);
		/* A slot that cannot be pushed is lost to the programs, its counts are not. */
		freed |= s->ops.push_free(s->ops.userdata, slot) == 0;
		drained(id, userdata);
	}
	if (freed)
		ask_anew(s, 0);
}
