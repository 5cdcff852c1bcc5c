/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's half of the slot protocol against a program played by the test, with the races placed by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/source/slots.h"

enum { CPUS = 2, SLOTS = 5, IDS = 64 };

/* The kernel: memory, a hash with ids below IDS, a stack. */
struct kernel {
	struct fault_cell cells[CPUS * SLOTS];
	struct slot_cache cache[CPUS];
	uint64_t owner[SLOTS];
	uint64_t touched[CPUS];
	int64_t hash[IDS]; /* -1: not there */
	uint32_t stack[SLOTS * 2];
	int top;
	struct slots *book;
	struct bad_cell bad[SLOTS];
	uint64_t bad_touched[1];
	struct bad_latency latency[SLOTS];
	uint64_t counted[IDS], drained[IDS];
	uint64_t bad_counted[IDS][BAD_OUTCOMES], slow[IDS], waited_ns[IDS];
};

static int hash_get(void *userdata, uint64_t id, uint32_t *ret_slot)
{
	struct kernel *k = userdata;

	if (k->hash[id] < 0)
		return -2;
	*ret_slot = (uint32_t)k->hash[id];
	return 0;
}

static int hash_set(void *userdata, uint64_t id, uint32_t slot)
{
	((struct kernel *)userdata)->hash[id] = slot;
	return 0;
}

static int hash_delete(void *userdata, uint64_t id)
{
	struct kernel *k = userdata;
	int r = k->hash[id] < 0 ? -2 : 0;

	k->hash[id] = -1;
	return r;
}

static int push_free(void *userdata, uint32_t slot)
{
	struct kernel *k = userdata;

	k->stack[k->top++] = slot;
	return 0;
}

static int setup(void **state)
{
	struct kernel *k = calloc(1, sizeof(*k));
	struct slots_memory memory = {
	    .cpus = CPUS,
	    .slots = SLOTS,
	    .cells = k->cells,
	    .cache = k->cache,
	    .owner = k->owner,
	    .touched = k->touched,
	    .bad = k->bad,
	    .bad_touched = k->bad_touched,
	    .latency = k->latency,
	};
	struct slots_ops ops = {hash_get, hash_set, hash_delete, push_free, k};

	for (int id = 0; id < IDS; id++)
		k->hash[id] = -1;
	assert_int_equal(slots_new(&memory, &ops, &k->book), 0);
	assert_int_equal(k->top, SLOTS - 1);
	*state = k;
	return 0;
}

static int teardown(void **state)
{
	struct kernel *k = *state;

	slots_free(k->book);
	free(k);
	return 0;
}

/* What the programs do, in the same order of steps. */
static uint32_t claim(struct kernel *k, uint64_t id)
{
	uint32_t slot;

	if (k->top == 0)
		return 0;
	slot = k->stack[--k->top];
	k->hash[id] = slot;
	k->owner[slot] = id;
	return slot;
}

static struct fault_cell *turn_to(struct kernel *k, uint32_t cpu, uint64_t id)
{
	uint32_t slot, at = cpu * SLOTS;

	if (k->cache[cpu].folded == id)
		return &k->cells[at];
	slot = k->hash[id] >= 0 ? (uint32_t)k->hash[id] : claim(k, id);
	if (slot == 0) {
		k->cache[cpu].folded = id;
		return &k->cells[at];
	}
	at += slot;
	k->cells[at].id = id;
	k->cache[cpu].cell = at;
	k->touched[cpu] |= UINT64_C(1) << slot;
	return &k->cells[at];
}

static void fault(struct kernel *k, uint32_t cpu, uint64_t id, uint64_t n)
{
	struct fault_cell *cell = &k->cells[k->cache[cpu].cell];

	if (cell->id != id)
		cell = turn_to(k, cpu, id);
	cell->count[3] += n;
}

static void bad(struct kernel *k, uint64_t id, enum bad_outcome outcome, int64_t n)
{
	uint32_t slot = k->hash[id] >= 0 ? (uint32_t)k->hash[id] : claim(k, id);

	k->bad[slot].count[outcome][BAD_BASE_BUS + 2] += n;
	k->bad_touched[0] |= UINT64_C(1) << slot;
}

static void grown(uint64_t id, const struct growth *growth, void *userdata)
{
	struct kernel *k = userdata;

	if (growth->faults)
		k->counted[id] += growth->faults[3];
	for (uint32_t o = 0; growth->bad && o < BAD_OUTCOMES; o++)
		k->bad_counted[id][o] += growth->bad->count[o][BAD_BASE_BUS + 2];
	if (growth->latencies) {
		k->slow[id] += growth->latencies->bucket[BAD_LATENCY_BUCKETS - 1];
		k->waited_ns[id] += growth->latencies->sum_ns;
	}
}

static void drained(uint64_t id, void *userdata)
{
	((struct kernel *)userdata)->drained[id]++;
}

static void collect(struct kernel *k)
{
	slots_collect(k->book, grown, k);
}

static void reclaim(struct kernel *k)
{
	slots_reclaim(k->book, grown, drained, k);
}

static void counts_of_all_cpus_add_up_to_their_cgroup(void **state)
{
	struct kernel *k = *state;

	fault(k, 0, 7, 10);
	fault(k, 1, 7, 5);
	fault(k, 1, 8, 1);
	fault(k, 1, 7, 100);
	collect(k);
	assert_int_equal(k->counted[7], 115);
	assert_int_equal(k->counted[8], 1);
	assert_int_equal(slots_used(k->book), 2);
	collect(k);
	assert_int_equal(k->counted[7], 115);
}

static void a_cpu_that_stays_in_a_cgroup_is_read_without_touching_again(void **state)
{
	struct kernel *k = *state;

	fault(k, 0, 7, 1);
	collect(k);
	fault(k, 0, 7, 1); /* cache hit: sets no bit */
	collect(k);
	collect(k);
	fault(k, 0, 7, 1);
	fault(k, 0, 8, 1); /* and turns away */
	collect(k);
	assert_int_equal(k->counted[7], 3);
}

static void a_count_that_follows_the_reading_of_its_bit_is_seen_next_time(void **state)
{
	struct kernel *k = *state;
	struct fault_cell *cell;

	fault(k, 0, 8, 1);
	cell = turn_to(k, 0, 7); /* interrupted between turning and counting */
	k->cache[0].cell = 0;    /* by another program that turned the CPU elsewhere */
	collect(k);
	cell->count[3]++;
	collect(k);
	assert_int_equal(k->counted[7], 1);
}

static void growth_whose_owner_is_not_visible_yet_waits_for_its_name(void **state)
{
	struct kernel *k = *state;
	uint32_t slot;

	fault(k, 0, 7, 4);
	slot = (uint32_t)k->hash[7];
	k->owner[slot] = 0; /* the store is still on its way */
	collect(k);
	assert_int_equal(k->counted[0], 0);
	k->owner[slot] = 7;
	collect(k);
	assert_int_equal(k->counted[7], 4);
}

static void a_dead_cgroups_slot_drains_and_is_used_again_from_zero(void **state)
{
	struct kernel *k = *state;
	struct fault_cell *late;

	fault(k, 0, 7, 4);
	late = &k->cells[k->cache[0].cell];
	collect(k);
	assert_int_equal(slots_release(k->book, 7), 1);
	late->count[3] += 2; /* a program that was inside */
	reclaim(k);
	late->id = 7; /* and one that was about to write the id */
	reclaim(k);
	assert_int_equal(late->id, 0);
	assert_int_equal(k->drained[7], 0);
	reclaim(k);
	assert_int_equal(k->drained[7], 1);
	assert_int_equal(k->counted[7], 6);
	assert_int_equal(slots_used(k->book), 0);
	assert_int_equal(k->top, SLOTS - 1);
	for (uint64_t id = 10; id < 14; id++)
		fault(k, 0, id, id);
	collect(k);
	for (uint64_t id = 10; id < 14; id++)
		assert_int_equal(k->counted[id], id);
	assert_int_equal(k->counted[7], 6);
}

static void cgroups_without_a_slot_count_as_other_until_one_is_free(void **state)
{
	struct kernel *k = *state;

	for (uint64_t id = 1; id <= 6; id++)
		fault(k, 0, id, 10);
	collect(k);
	assert_int_equal(k->counted[0], 20);
	slots_release(k->book, 1);
	for (int i = 0; i < 3; i++)
		reclaim(k);
	fault(k, 0, 6, 3); /* asks anew: its folded mark was taken away */
	collect(k);
	assert_int_equal(k->counted[6], 3);
	assert_int_equal(k->counted[0], 20);
}

static void a_folded_cgroup_counts_as_other_and_comes_back_when_unfolded(void **state)
{
	struct kernel *k = *state;

	fault(k, 0, 7, 4);
	collect(k);
	assert_int_equal(slots_fold(k->book, 7), 1);
	fault(k, 0, 7, 2);
	for (int i = 0; i < 3; i++) {
		collect(k);
		reclaim(k);
	}
	fault(k, 0, 7, 1);
	collect(k);
	assert_int_equal(k->counted[7], 4);
	assert_int_equal(k->counted[0], 3);
	assert_int_equal(slots_used(k->book), 0);
	assert_int_equal(slots_unfold(k->book, 7), 0);
	fault(k, 0, 7, 5);
	collect(k);
	assert_int_equal(k->counted[7], 9);
}

static void a_cgroup_folded_while_it_claims_gives_its_slot_back(void **state)
{
	struct kernel *k = *state;

	fault(k, 0, 7, 4);
	assert_int_equal(slots_fold(k->book, 7), 0); /* the daemon has not seen the claim */
	for (int i = 0; i < 4; i++) {
		collect(k);
		reclaim(k);
	}
	assert_int_equal(slots_used(k->book), 0);
	assert_int_equal(k->counted[7], 4);
	fault(k, 0, 7, 1);
	collect(k);
	assert_int_equal(k->counted[0], 1);
}

static void bad_accesses_count_for_their_cgroup_once(void **state)
{
	struct kernel *k = *state;

	bad(k, 7, BAD_FATAL, 2);
	bad(k, 7, BAD_HANDLED, 30);
	bad(k, 8, BAD_FATAL, 1);
	fault(k, 0, 7, 5); /* the same slot */
	for (int i = 0; i < 2; i++)
		collect(k);
	assert_int_equal(k->bad_counted[7][BAD_FATAL], 2);
	assert_int_equal(k->bad_counted[7][BAD_HANDLED], 30);
	assert_int_equal(k->bad_counted[8][BAD_FATAL], 1);
	assert_int_equal(k->counted[7], 5);
	assert_int_equal(slots_used(k->book), 2);
	bad(k, 7, BAD_FATAL, 1);
	collect(k);
	assert_int_equal(k->bad_counted[7][BAD_FATAL], 3);
}

static void a_count_taken_back_after_it_was_read_is_paid_by_the_next_ones(void **state)
{
	struct kernel *k = *state;

	bad(k, 7, BAD_HANDLED, 5);
	collect(k);
	bad(k, 7, BAD_HANDLED, -2);
	collect(k);
	assert_int_equal(k->bad_counted[7][BAD_HANDLED], 5);
	bad(k, 7, BAD_HANDLED, 1);
	collect(k);
	assert_int_equal(k->bad_counted[7][BAD_HANDLED], 5);
	bad(k, 7, BAD_HANDLED, 4);
	collect(k);
	assert_int_equal(k->bad_counted[7][BAD_HANDLED], 8);
}

static void bad_accesses_whose_owner_is_not_visible_yet_wait_for_its_name(void **state)
{
	struct kernel *k = *state;
	uint32_t slot;

	bad(k, 7, BAD_FATAL, 4);
	slot = (uint32_t)k->hash[7];
	k->owner[slot] = 0;
	collect(k);
	assert_int_equal(k->bad_counted[0][BAD_FATAL], 0);
	k->owner[slot] = 7;
	collect(k);
	assert_int_equal(k->bad_counted[7][BAD_FATAL], 4);
}

static void a_dead_cgroups_last_bad_accesses_come_with_its_draining(void **state)
{
	struct kernel *k = *state;
	uint32_t slot;

	bad(k, 7, BAD_FATAL, 1);
	collect(k);
	slot = (uint32_t)k->hash[7];
	assert_int_equal(slots_release(k->book, 7), 1);
	k->bad[slot].count[BAD_FATAL][BAD_BASE_BUS + 2]++; /* a program that was inside and has not set the bit */
	k->latency[slot].bucket[BAD_LATENCY_BUCKETS - 1] = 1;
	k->latency[slot].sum_ns = 1000;
	for (int i = 0; i < 3; i++)
		reclaim(k);
	assert_int_equal(k->drained[7], 1);
	assert_int_equal(k->bad_counted[7][BAD_FATAL], 2);
	assert_int_equal(k->slow[7], 1);
	k->bad_touched[0] |= UINT64_C(1) << slot; /* now it does */
	bad(k, 9, BAD_FATAL, 1);
	assert_int_equal(k->hash[9], slot);
	collect(k);
	assert_int_equal(k->bad_counted[9][BAD_FATAL], 1);
	assert_int_equal(k->bad_counted[7][BAD_FATAL], 2);
	assert_int_equal(k->slow[9], 0);
}

static void folded_cgroups_make_their_bad_accesses_as_other(void **state)
{
	struct kernel *k = *state;

	bad(k, 7, BAD_FATAL, 1);
	collect(k);
	slots_fold(k->book, 7);
	bad(k, 7, BAD_FATAL, 2);
	collect(k);
	assert_int_equal(k->bad_counted[7][BAD_FATAL], 1);
	assert_int_equal(k->bad_counted[0][BAD_FATAL], 2);
}

static void latencies_are_reported_once(void **state)
{
	struct kernel *k = *state;

	bad(k, 7, BAD_HANDLED, 1);
	k->latency[k->hash[7]].bucket[BAD_LATENCY_BUCKETS - 1] = 3;
	k->latency[k->hash[7]].sum_ns = 12345;
	for (int i = 0; i < 2; i++) {
		k->bad_touched[0] = UINT64_MAX;
		collect(k);
	}
	assert_int_equal(k->slow[7], 3);
	assert_int_equal(k->waited_ns[7], 12345);
}

/* A kernel without page-fault tracepoints: bad accesses are all that is counted. */
static void bad_accesses_need_no_page_fault_cells(void **state)
{
	struct kernel *k = *state;
	struct slots_memory memory = {.slots = SLOTS, .owner = k->owner, .bad = k->bad, .bad_touched = k->bad_touched};
	struct slots_ops ops = {hash_get, hash_set, hash_delete, push_free, k};

	slots_free(k->book);
	k->top = 0;
	assert_int_equal(slots_new(&memory, &ops, &k->book), 0);
	bad(k, 7, BAD_FATAL, 1);
	collect(k);
	assert_int_equal(slots_release(k->book, 7), 1);
	for (int i = 0; i < 3; i++)
		reclaim(k);
	assert_int_equal(k->bad_counted[7][BAD_FATAL], 1);
	assert_int_equal(k->top, SLOTS - 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(counts_of_all_cpus_add_up_to_their_cgroup),
	    TEST(a_cpu_that_stays_in_a_cgroup_is_read_without_touching_again),
	    TEST(a_count_that_follows_the_reading_of_its_bit_is_seen_next_time),
	    TEST(growth_whose_owner_is_not_visible_yet_waits_for_its_name),
	    TEST(a_dead_cgroups_slot_drains_and_is_used_again_from_zero),
	    TEST(cgroups_without_a_slot_count_as_other_until_one_is_free),
	    TEST(a_folded_cgroup_counts_as_other_and_comes_back_when_unfolded),
	    TEST(a_cgroup_folded_while_it_claims_gives_its_slot_back),
	    TEST(bad_accesses_count_for_their_cgroup_once),
	    TEST(a_count_taken_back_after_it_was_read_is_paid_by_the_next_ones),
	    TEST(bad_accesses_whose_owner_is_not_visible_yet_wait_for_its_name),
	    TEST(a_dead_cgroups_last_bad_accesses_come_with_its_draining),
	    TEST(folded_cgroups_make_their_bad_accesses_as_other),
	    TEST(latencies_are_reported_once),
	    TEST(bad_accesses_need_no_page_fault_cells),
	};

	return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
