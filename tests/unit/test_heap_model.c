// SPDX-License-Identifier: Apache-2.0
// Where blocks lie, or once lay.
#include "heap_model.h"
#include "unit_support.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_around_blocks),
                                       cmocka_unit_test(what_lies_at_the_last_addresses_is_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
