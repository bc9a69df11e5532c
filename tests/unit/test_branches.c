// SPDX-License-Identifier: Apache-2.0
// The simulated branch predictor on branches whose predictability is known.
#include "unit_support.h"

#include <string.h>

#include "branches.h"

enum { TIMES = 20000 };

static struct ht_branch_predictor predictor;
static struct ht_branch_counts counts;
static uint64_t random_state;

static bool random_bit(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return random_state >> 63;
}

static int begin(void **state) {
    (void)state;
    memset(&predictor, 0, sizeof predictor);
    counts = (struct ht_branch_counts){0};
    random_state = 1;
    return 0;
}

static double missed(void) {
    assert_true(counts.branches > 0);
    return (double)counts.misses / (double)counts.branches;
}

static void one_that_is_always_taken_is_known(void **state) {
    (void)state;
    for (int i = 0; i < TIMES; i++) ht_branch_taken(&predictor, 0x1000, true, &counts);
    assert_int_equal(counts.branches, TIMES);
    assert_true(counts.misses <= 4);
}

static void patterns_are_learned(void **state) {
    (void)state;
    static const int periods[] = {2, 3, 7, 12, 28};
    for (size_t k = 0; k < sizeof periods / sizeof *periods; k++) {
        begin(NULL);
        for (int i = 0; i < TIMES; i++) ht_branch_taken(&predictor, 0x1000, i % periods[k] != 0, &counts);
        assert_true(missed() < 0.02);
    }
}

static void random_ones_are_not(void **state) {
    (void)state;
    for (int i = 0; i < TIMES; i++) ht_branch_taken(&predictor, 0x1000, random_bit(), &counts);
    assert_true(missed() > 0.45 && missed() < 0.55);
}

// The second branch does as the first, with others between them.
static void what_an_earlier_branch_shows_is_used(void **state) {
    (void)state;
    struct ht_branch_counts first = {0}, others = {0};
    for (int i = 0; i < TIMES; i++) {
        bool taken = random_bit();
        ht_branch_taken(&predictor, 0x1000, taken, &first);
        for (uint64_t k = 0; k < 3; k++) ht_branch_taken(&predictor, 0x2000 + 16 * k, true, &others);
        ht_branch_taken(&predictor, 0x3000, taken, &counts);
    }
    assert_true(missed() < 0.03);
    assert_true((double)first.misses > 0.45 * TIMES);
}

static void without_the_history_it_is_not(void **state) {
    (void)state;
    struct ht_branch_counts first = {0};
    for (int i = 0; i < TIMES; i++) {
        bool taken = random_bit();
        ht_branch_taken(&predictor, 0x1000, taken, &first);
        ht_branch_forget_history(&predictor);
        ht_branch_taken(&predictor, 0x3000, taken, &counts);
    }
    assert_true(missed() > 0.45);
}

static void many_branches_keep_their_own_habits(void **state) {
    (void)state;
    for (int i = 0; i < TIMES; i++) {
        uint64_t which = (uint64_t)i % 997;
        ht_branch_taken(&predictor, 0x400000 + 4 * which, which % 3 == 0, &counts);
    }
    assert_true(missed() < 0.15);
}

static void targets(void **state) {
    (void)state;
    for (int i = 0; i < TIMES; i++) ht_branch_to(&predictor, 0x1000, 0x9000, &counts);
    assert_true(counts.misses <= 16);
    begin(NULL);
    for (int i = 0; i < TIMES; i++) ht_branch_to(&predictor, 0x1000, random_bit() ? 0x9002 : 0x7000, &counts);
    assert_true(missed() > 0.4 && missed() < 0.6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_that_is_always_taken_is_known, begin),
        cmocka_unit_test_setup(patterns_are_learned, begin),
        cmocka_unit_test_setup(random_ones_are_not, begin),
        cmocka_unit_test_setup(what_an_earlier_branch_shows_is_used, begin),
        cmocka_unit_test_setup(without_the_history_it_is_not, begin),
        cmocka_unit_test_setup(many_branches_keep_their_own_habits, begin),
        cmocka_unit_test_setup(targets, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
