// SPDX-License-Identifier: Apache-2.0
// Whether the recorded heap is a small part of a program's memory, and how that is said.
#include "unit_support.h"

#include <string.h>

#include "heap_share.h"

static const uint64_t MIB = UINT64_C(1) << 20;

static void test_what_calls_can_have_taken(void **state) {
    (void)state;
    assert_int_equal(ht_heap_explained(0, 0, 0), 0);
    assert_int_equal(ht_heap_explained(0, 100, 1000), 100);    // no more than was there
    assert_int_equal(ht_heap_explained(0, 1000, 100), 100);    // nor than was asked for
    assert_int_equal(ht_heap_explained(300, 1000, 100), 400);  // beside what was there at first
    assert_int_equal(ht_heap_explained(1, 1000, UINT64_MAX), 1000);
}

static void test_which_share_is_small(void **state) {
    (void)state;
    const struct {
        uint64_t anon_mib, explained_mib;
        bool small;
    } cases[] = {
        {0, 0, false},                                          // not known
        {7, 0, false},                                          // a small program
        {8, 0, true},        {80, 15, true},  {80, 16, false},  // a fifth
        {84, 84, false},     {9, 1, true},    {9, 2, false},
        {10000, 1999, true}, {10, 40, false},  // a heap that was never touched
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ht_heap_share share = {.anon_bytes = cases[i].anon_mib * MIB,
                                      .explained_bytes = cases[i].explained_mib * MIB};
        assert_int_equal(ht_heap_share_is_small(&share), cases[i].small);
    }
}

static void test_words(void **state) {
    (void)state;
    char text[HT_HEAP_SHARE_TEXT_BYTES];
    struct ht_heap_share share = {.anon_bytes = 84100000, .explained_bytes = 200000, .own_bytes = 83200000};
    assert_string_equal(
        ht_heap_share_words(text, &share),
        "the recorded heap explains 0.2 of 84.1 MB of anonymous memory: most of this program's "
        "memory does not come from malloc; its own mappings, stacks and data hold 83.2 MB");
    share = (struct ht_heap_share){.anon_bytes = 84100000, .explained_bytes = 12000, .own_bytes = 300000};
    assert_string_equal(
        ht_heap_share_words(text, &share),
        "the recorded heap explains 0.01 of 84.1 MB of anonymous memory: most of this program's "
        "memory does not come from malloc");
    share = (struct ht_heap_share){UINT64_MAX, UINT64_MAX / 6, UINT64_MAX};
    assert_true(strlen(ht_heap_share_words(text, &share)) < sizeof text - 1);
}

static void a_heap_of_many_times_its_blocks(void **state) {
    char text[HT_HEAP_SWOLLEN_TEXT_BYTES];
    (void)state;
    assert_false(ht_heap_is_swollen(40 * MIB, 10 * MIB));
    assert_true(ht_heap_is_swollen(41 * MIB, 10 * MIB));
    assert_false(ht_heap_is_swollen(8 * MIB, MIB));  // of small ones nothing follows
    assert_non_null(strstr(ht_heap_swollen_words(text, 320000000, 5200000), "320.0 MB"));
    assert_non_null(strstr(text, "more than 5.2 MB"));
}

static void a_heap_that_may_be_more(void **state) {
    (void)state;
    assert_false(ht_heap_is_unknown(100 * MIB, 104 * MIB));
    assert_true(ht_heap_is_unknown(100 * MIB, 106 * MIB));
    assert_false(ht_heap_is_unknown(MIB, 2 * MIB));
    assert_false(ht_heap_is_unknown(0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_calls_can_have_taken), cmocka_unit_test(test_which_share_is_small),
        cmocka_unit_test(test_words), cmocka_unit_test(a_heap_of_many_times_its_blocks),
        cmocka_unit_test(a_heap_that_may_be_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
