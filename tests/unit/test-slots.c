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
	uint64_t counted[IDS], drained[IDS];
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

static void grown(uint64_t id, const uint64_t growth[FAULT_CLASSES], void *userdata)
{
	((struct kernel *)userdata)->counted[id] += growth[3];
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
	};

	return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
