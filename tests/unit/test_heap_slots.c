// SPDX-License-Identifier: Apache-2.0
// The model of the heap: where blocks lie, or once lay, and which slots they get.
#include "unit_support.h"

#include <string.h>

#include "heap_model.h"
#include "slots.h"

// ---- where blocks lie, or once lay ----

static void what_is_around_blocks(void **state) {
    (void)state;
    enum { UNIT = 1 << HEAP_HELD_SHIFT };
    struct heap_model *heap = calloc(1, sizeof *heap);
    assert_true(heap_model_init(heap, NULL));
    heap->holds_addresses = true;
    const uint64_t at = UINT64_C(0x7f0000000000);
    heap_model_hold(heap, at + 100, 50);
    assert_int_equal(heap_model_held_bytes(heap, at - UNIT, at + 2 * UNIT), UNIT);
    // A block of many sizes of units, with all between it and the first.
    heap_model_hold(heap, at + 3 * UNIT + 16, 600 << 20);
    assert_int_equal(heap_model_held_bytes(heap, at, at + (1 << 30)), 4 * UNIT + (600 << 20));
    assert_int_equal(heap_model_held_bytes(heap, at, at + (UINT64_C(1) << 46)), 2 * UNIT + (600 << 20));
    // It was a mapping of its own: only the parts that others may share stay.
    heap_model_hold_no_more(heap, at + 3 * UNIT + 16, 600 << 20);
    assert_int_equal(heap_model_held_bytes(heap, at, at + (1 << 30)), 5 * UNIT);
    heap_model_hold(heap, at + 4 * UNIT, 10);
    assert_int_equal(heap_model_held_bytes(heap, at + 4 * UNIT, at + (1 << 28)), UNIT);
    heap_model_free(heap);
    free(heap);
}

// Of a damaged log, where a walk from page to page would not end.
static void what_lies_at_the_last_addresses_is_left_out(void **state) {
    (void)state;
    struct heap_model *heap = calloc(1, sizeof *heap);
    assert_true(heap_model_init(heap, NULL));
    heap->holds_addresses = true;
    heap_model_hold(heap, UINT64_MAX - 100, 50);
    heap_model_hold(heap, UINT64_MAX - 100, 500);
    assert_int_equal(heap->held.count, 0);
    struct heap_pieces pieces = {0};
    const struct ht_raw_record record = {.stamp = 1,
                                         .word = {UINT64_MAX - (1 << 17) + 1, UINT64_C(31) << 32 | 31, 0}};
    heap_pieces_take(&pieces, heap, &record, 4096);
    assert_int_equal(pieces.count, 0);
    assert_int_equal(pieces.heap_bytes, 0);
    heap_model_free(heap);
    free(heap);
}

// ---- slots: never given twice, bounded, recycled in the order that keeps threads apart ----

static void a_thread_reuses_its_own_last_freed_first(void **state) {
    (void)state;
    struct slots slots;
    assert_true(slots_init(&slots) && slots_add_thread(&slots));
    uint32_t a = slots_take(&slots, 0, 1), b = slots_take(&slots, 0, 1);
    slots_give(&slots, a, 0);
    slots_give(&slots, b, 0);
    assert_int_equal(slots_take(&slots, 0, 1), b);
    assert_int_equal(slots_take(&slots, 0, 1), a);
    slots_free(&slots);
}

static void blocks_that_others_freed_come_back_oldest_first(void **state) {
    (void)state;
    struct slots slots;
    assert_true(slots_init(&slots) && slots_add_thread(&slots) && slots_add_thread(&slots));
    uint32_t a = slots_take(&slots, 0, 1), b = slots_take(&slots, 0, 1);
    slots_give(&slots, a, 1);
    slots_give(&slots, b, 1);
    assert_int_not_equal(slots_take(&slots, 1, 1), a);  // the freeing thread does not get them
    assert_int_equal(slots_take(&slots, 0, 1), a);
    assert_int_equal(slots_take(&slots, 0, 1), b);
    slots_free(&slots);
}

static void independent_threads_never_share_a_slot(void **state) {
    (void)state;
    enum { ROUNDS = 20000 };
    struct slots slots;
    uint64_t seed = 11;
    uint32_t live[2][64], count[2] = {0}, owner[4096];
    memset(owner, 0xff, sizeof owner);
    assert_true(slots_init(&slots) && slots_add_thread(&slots) && slots_add_thread(&slots));
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t thread = (uint32_t)(unit_random(&seed) % 2);
        if (count[thread] == 0 || (count[thread] < 64 && unit_random(&seed) % 2)) {
            uint32_t slot = slots_take(&slots, thread, 1);
            assert_in_range(slot, 1, 4095);
            assert_true(owner[slot] == UINT32_MAX || owner[slot] == thread);
            owner[slot] = thread;
            live[thread][count[thread]++] = slot;
        } else {
            uint32_t i_live = (uint32_t)(unit_random(&seed) % count[thread]);
            slots_give(&slots, live[thread][i_live], thread);
            live[thread][i_live] = live[thread][--count[thread]];
        }
    }
    slots_free(&slots);
}

// Producers, consumers and threads that come and go, with bursts: the worst that the bound has to hold for.
static void the_bound_holds(void **state) {
    (void)state;
    enum { STEPS = 400000, LIVE_MAX = 20000, THREADS_MAX = 40 };
    struct slots slots;
    uint64_t seed = 5;
    uint32_t *live = calloc(LIVE_MAX, sizeof *live), count = 0;
    uint8_t *taken = calloc(4 * LIVE_MAX, 1);
    assert_true(slots_init(&slots) && slots_add_thread(&slots));
    for (unsigned step = 0; step < STEPS; step++) {
        if (step % (STEPS / THREADS_MAX) == 0 && slots.threads < THREADS_MAX) {
            assert_true(slots_add_thread(&slots));
            if (slots.threads > 3 && slots.threads % 2) slots_thread_ended(&slots, slots.threads - 3);
        }
        uint32_t thread = (uint32_t)(unit_random(&seed) % slots.threads);
        bool growing = step / 50000 % 2 == 0;
        if (count < LIVE_MAX && (count == 0 || unit_random(&seed) % 8 < (growing ? 5u : 3u))) {
            uint32_t slot = slots_take(&slots, thread, 8);
            assert_in_range(slot, 1, 4 * LIVE_MAX - 1);
            assert_int_equal(taken[slot], 0);
            taken[slot] = 1;
            live[count++] = slot;
        } else {
            uint32_t i = (uint32_t)(unit_random(&seed) % count);
            slots_give(&slots, live[i], thread);
            taken[live[i]] = 0;
            live[i] = live[--count];
        }
        assert_int_equal(slots.live, count);
        assert_true(slots.total <= slots.live_peak + slots.live_peak / 4 + 64 * slots.threads);
    }
    slots_free(&slots);
    free(live);
    free(taken);
}

static void one_thread_hands_over_to_the_next(void **state) {
    (void)state;
    // A million live in turn in each of four threads: without reclaiming, four million slots.
    enum { MANY = 100000 };
    struct slots slots;
    uint32_t *live = calloc(MANY, sizeof *live);
    assert_true(slots_init(&slots));
    for (uint32_t thread = 0; thread < 4; thread++) {
        assert_true(slots_add_thread(&slots));
        for (unsigned i = 0; i < MANY; i++) live[i] = slots_take(&slots, thread, 1);
        for (unsigned i = 0; i < MANY; i++) slots_give(&slots, live[i], thread);
    }
    assert_true(slots.total <= MANY + MANY / 4 + 4 * 64);
    slots_free(&slots);
    free(live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_around_blocks),
        cmocka_unit_test(what_lies_at_the_last_addresses_is_left_out),
        cmocka_unit_test(a_thread_reuses_its_own_last_freed_first),
        cmocka_unit_test(blocks_that_others_freed_come_back_oldest_first),
        cmocka_unit_test(independent_threads_never_share_a_slot),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(one_thread_hands_over_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
