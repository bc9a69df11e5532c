// SPDX-License-Identifier: Apache-2.0
// The heap of lanes: whatever is put in comes out in order, and the earliest can become later.
#include "unit_support.h"

#include "lane_heap.h"

enum { LANES = 200 };

static int compare_keys(const void *a, const void *b) {
    const struct ht_lane_key *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    return x->lane < y->lane ? -1 : x->lane > y->lane;
}

static void lanes_come_out_in_order(void **state) {
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 200; round++) {
        struct ht_lane_key keys[LANES], expected[LANES];
        struct ht_lane_heap heap = {.keys = keys};
        uint32_t count = 1 + (uint32_t)(unit_random(&random) % LANES);
        for (uint32_t i = 0; i < count; i++) {
            // Few different times, so that many are equal.
            expected[i] = (struct ht_lane_key){unit_random(&random) % 50, i};
            ht_lane_heap_put(&heap, expected[i].ns, i);
        }
        qsort(expected, count, sizeof *expected, compare_keys);
        for (uint32_t i = 0; i < count; i++) {
            struct ht_lane_key taken = ht_lane_heap_take(&heap);
            assert_int_equal(taken.ns, expected[i].ns);
            assert_int_equal(taken.lane, expected[i].lane);
        }
        assert_int_equal(heap.count, 0);
    }
}

static void the_earliest_becomes_later(void **state) {
    (void)state;
    uint64_t random = 2, places[LANES];
    struct ht_lane_key keys[LANES];
    struct ht_lane_heap heap = {.keys = keys};
    for (uint32_t i = 0; i < LANES; i++) {
        places[i] = unit_random(&random) % 1000;
        ht_lane_heap_put(&heap, places[i], i);
    }
    for (int step = 0; step < 20000; step++) {
        uint32_t least = 0;
        for (uint32_t i = 1; i < LANES; i++) {
            if (places[i] < places[least]) least = i;
        }
        assert_int_equal(heap.keys[0].ns, places[least]);
        assert_int_equal(heap.keys[0].lane, least);
        places[least] += unit_random(&random) % 300;
        ht_lane_heap_delay_first(&heap, places[least]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_come_out_in_order),
                                       cmocka_unit_test(the_earliest_becomes_later)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
