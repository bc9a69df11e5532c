// SPDX-License-Identifier: Apache-2.0
// Who plays which thread when a stretch is repeated: threads of one name by rank of age.
#include "unit_support.h"

#include <stdlib.h>
#include <string.h>

#include "loop_threads.h"

enum { THREADS_MAX = 32, FROM_EVENT = 1000, FROM_NS = 1000, LENGTH_NS = 100, STAY = 0 };

// A trace of some threads, of which each calls once in a repetition.
struct world {
    struct loop_plan plan;
    struct ht_trace_facts facts;
    struct loop_thread threads[THREADS_MAX];
    struct ht_thread known[THREADS_MAX];
};

// Threads come in the order in which they begin. ends_ns 0: it does not end.
static void thread(struct world *world, const char *name, bool before, uint64_t ends_ns) {
    uint32_t i = world->plan.head_threads++;
    world->known[i] = (struct ht_thread){
        .first_event = (before ? 0 : FROM_EVENT) + i, .calls = 1, .ended = ends_ns, .end_ns = ends_ns};
    strcpy(world->known[i].name, name);
    world->threads[i] = (struct loop_thread){.head_calls = 1,
                                             .calls = 1,
                                             .calls_cut = 1,
                                             .first_row = i,
                                             .first_ns = FROM_NS + i,
                                             .last_ns = FROM_NS + i,
                                             .last_cut_ns = FROM_NS + i};
    world->facts.threads_count = world->plan.threads_count = world->plan.head_threads;
}

static struct world *begin(void) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->plan = (struct loop_plan){.from_event = FROM_EVENT,
                                     .end_event = FROM_EVENT + THREADS_MAX,
                                     .from_ns = FROM_NS,
                                     .until_ns = FROM_NS + LENGTH_NS,
                                     .rows = THREADS_MAX,
                                     .rows_cut = THREADS_MAX};
    world->plan.threads = world->threads;
    world->facts.threads = world->known;
    return world;
}

static void plan(struct world *world, const uint32_t *players, size_t count) {
    assert_true(loop_threads_plan(&world->plan, &world->facts));
    assert_int_equal(world->plan.head_threads, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(world->threads[i].player, players[i]);
        if (players[i] != MATCH_NONE) assert_int_equal(world->threads[players[i]].plays, i);
    }
}

#define NO MATCH_NONE

static void by_rank_of_age(void **state) {
    (void)state;
    struct world *world = begin();
    thread(world, "main", true, STAY);
    thread(world, "pool", true, STAY);
    thread(world, "pool", true, FROM_NS + 50);
    thread(world, "other", true, STAY);
    thread(world, "pool", true, STAY);
    thread(world, "pool", true, STAY);
    thread(world, "pool", false, STAY);
    thread(world, "pool", false, FROM_NS + 70);
    thread(world, "pool", true, FROM_NS - 1);
    plan(world, (uint32_t[]){0, 1, 4, 3, 5, 6, NO, NO, NO}, 9);
    assert_int_equal(world->threads[2].kind, LOOP_THREAD_LEAVES);
    assert_int_equal(world->threads[7].kind, LOOP_THREAD_INSIDE);
    assert_int_equal(world->threads[8].kind, LOOP_THREAD_SILENT);
    assert_true(loop_thread_ends(&world->threads[2]) && loop_thread_ends(&world->threads[7]));
    assert_false(loop_thread_ends(&world->threads[6]));
    free(world);
}

static void surplus(void **state) {
    (void)state;
    struct world *world = begin();
    thread(world, "a", true, FROM_NS + 1);
    thread(world, "a", true, FROM_NS + 2);
    thread(world, "b", true, STAY);
    thread(world, "a", false, STAY);
    thread(world, "b", false, STAY);
    // Of a, one that leaves has nobody to play it; of b, one that arrives has nobody to play.
    plan(world, (uint32_t[]){3, NO, 2, NO, NO}, 5);
    assert_true(loop_thread_ends(&world->threads[4]));
    assert_false(loop_thread_ends(&world->threads[3]));
    free(world);
}

// Of a pool of four, the oldest ends and a new one begins in each repetition: each thread lives for four repetitions.
static void lives(void **state) {
    (void)state;
    enum { POOL = 4, LOOPS = 10 };
    struct world *world = begin();
    for (unsigned i = 0; i < POOL; i++) thread(world, "pool", true, i ? STAY : FROM_NS + 10);
    thread(world, "pool", false, STAY);
    plan(world, (uint32_t[]){1, 2, 3, 4, NO}, 5);
    world->plan.loops = LOOPS;
    world->plan.to_ns = FROM_NS + LENGTH_NS * (LOOPS + 1);
    size_t count;
    struct ht_thread *list = loop_threads_extended(&world->plan, &world->facts, &count);
    assert_non_null(list);
    assert_int_equal(count, POOL + 1 + LOOPS);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(list[i].name, "pool");
        assert_int_equal(list[i].ended, i <= LOOPS);
        if (i) assert_true(list[i].end_ns >= list[i - 1].end_ns || !list[i].ended);
        if (i > POOL && list[i].ended)
            assert_int_equal(list[i].end_ns - list[i].start_ns, POOL * LENGTH_NS + 10 - POOL);
    }
    free(list);
    free(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_rank_of_age), cmocka_unit_test(surplus),
                                       cmocka_unit_test(lives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
