// SPDX-License-Identifier: Apache-2.0
// Intervals, what widens them, verdicts, outliers and --fail-if, on data of known truth.
#include "unit_support.h"

#include <math.h>
#include <string.h>

#include "fail_if.h"
#include "outliers.h"
#include "ratio_interval.h"

static double uniform(uint64_t *seed) { return (double)(unit_random(seed) % 1000000) / 1e6; }

// Log-normal, about, with one value in ten that is far too large: what shared machines do to times.
static double noisy(uint64_t *seed, double spread) {
    double sum = 0;
    for (int i = 0; i < 12; i++) sum += uniform(seed);
    double disturbed = uniform(seed) < 0.1 ? 1 + uniform(seed) : 1;
    return exp((sum - 6) * spread) * disturbed;
}

static void medians(void **state) {
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    assert_true(ht_median(odd, 3) == 2);
    assert_true(ht_median(even, 4) == 2.5);
    assert_true(isnan(ht_median(odd, 0)));
}

// Of many experiments with a known ratio, about 95 % of the intervals must hold it.
static void covers(size_t rounds) {
    enum { ROUNDS_MAX = 40 };
    uint64_t seed = 5 + rounds;
    size_t experiments = 400 / unit_stride(4), covered = 0;
    for (size_t i = 0; i < experiments; i++) {
        double ratios[ROUNDS_MAX];
        for (size_t k = 0; k < rounds; k++) ratios[k] = 0.8 * noisy(&seed, 0.05) / noisy(&seed, 0.05);
        struct ht_interval interval = ht_ratio_interval(ratios, rounds, ht_confidence);
        assert_true(interval.low <= interval.estimate && interval.estimate <= interval.high);
        covered += interval.low <= 0.8 && 0.8 <= interval.high;
    }
    assert_in_range(covered, experiments * 91 / 100, experiments);
}

static void intervals_cover_the_truth(void **state) {
    (void)state;
    covers(4);
    covers(9);
    covers(15);
    covers(40);
}

static void the_stricter_interval_holds_the_other(void **state) {
    (void)state;
    uint64_t seed = 3;
    double ratios[18];
    for (size_t k = 0; k < 18; k++) ratios[k] = noisy(&seed, 0.1);
    struct ht_interval shown = ht_ratio_interval(ratios, 18, ht_confidence);
    struct ht_interval strict = ht_ratio_interval(ratios, 18, ht_interim_confidence);
    assert_true(strict.low < shown.low && shown.high < strict.high && strict.estimate == shown.estimate);
}

static void few_rounds_are_judged_by_student(void **state) {
    (void)state;
    const double one[] = {0.5}, two[] = {0.5, 2}, bad[] = {0.5, -1, NAN, INFINITY, 0};
    struct ht_interval interval = ht_ratio_interval(one, 1, ht_confidence);
    assert_true(interval.estimate == 0.5 && isnan(interval.low) && interval.count == 1);
    // Logarithms ln 2 either side of 0: standard deviation sqrt(2) ln 2, half-width t * ln 2.
    interval = ht_ratio_interval(two, 2, ht_confidence);
    assert_true(fabs(log(interval.high) - 12.706 * log(2)) < 1e-9);
    assert_true(fabs(interval.low * interval.high - 1) < 1e-9);
    interval = ht_ratio_interval(bad, 5, ht_confidence);
    assert_true(interval.count == 1 && interval.estimate == 0.5);
    assert_true(isnan(ht_ratio_interval(bad + 1, 4, ht_confidence).estimate));
}

static enum ht_verdict verdict(double low, double high) {
    return ht_verdict(&(struct ht_interval){(low + high) / 2, low, high, 5});
}

static void verdicts_say_when_they_do_not_know(void **state) {
    (void)state;
    assert_int_equal(verdict(0.5, 0.6), HT_VERDICT_LESS);
    assert_int_equal(verdict(1.2, 1.3), HT_VERDICT_MORE);
    assert_int_equal(verdict(0.995, 1.005), HT_VERDICT_SAME);
    assert_int_equal(verdict(0.9, 1.1), HT_VERDICT_UNRESOLVED);
    assert_int_equal(ht_verdict(&(struct ht_interval){0.5, NAN, NAN, 1}), HT_VERDICT_UNRESOLVED);
    assert_int_equal(ht_verdict(&(struct ht_interval){NAN, NAN, NAN, 0}), HT_VERDICT_NONE);
}

static void the_control_widens(void **state) {
    (void)state;
    const struct ht_interval ratio = {0.9, 0.9 * exp(-0.03), 0.9 * exp(0.03), 20};
    const struct ht_interval noisy_control = {1, exp(-0.04), exp(0.01), 20};
    const struct ht_interval exact = {1, 1, 1, 20}, none = {NAN, NAN, NAN, 0};
    struct ht_interval widened = ht_widened(&ratio, &noisy_control);
    assert_true(fabs(log(widened.high / 0.9) - 0.05) < 1e-9 && fabs(log(0.9 / widened.low) - 0.05) < 1e-9);
    assert_true(widened.estimate == 0.9 && widened.count == 20);
    widened = ht_widened(&ratio, &exact);
    assert_true(fabs(widened.low - ratio.low) < 1e-12 && fabs(widened.high - ratio.high) < 1e-12);
    widened = ht_widened(&ratio, &none);
    assert_true(widened.low == ratio.low && widened.high == ratio.high);
    // A machine on which the baseline differs from itself by 20 % tells no 10 % from nothing.
    const struct ht_interval biased = {1.2, 1.19, 1.21, 20};
    widened = ht_widened(&ratio, &biased);
    assert_int_equal(ht_verdict(&ratio), HT_VERDICT_LESS);
    assert_int_equal(ht_verdict(&widened), HT_VERDICT_UNRESOLVED);
}

// The baseline against itself, its control running in the same rounds: how often it is found different.
static void what_is_the_same_is_seldom_found_different(void **state) {
    (void)state;
    enum { ROUNDS = 20 };
    uint64_t seed = 77;
    size_t experiments = 400 / unit_stride(4), plain = 0, widened = 0;
    for (size_t i = 0; i < experiments; i++) {
        double ratios[ROUNDS], controls[ROUNDS];
        for (int k = 0; k < ROUNDS; k++) {
            double base = noisy(&seed, 0.1);
            ratios[k] = noisy(&seed, 0.1) / base;
            controls[k] = noisy(&seed, 0.1) / base;
        }
        struct ht_interval ratio = ht_ratio_interval(ratios, ROUNDS, ht_confidence);
        struct ht_interval control = ht_ratio_interval(controls, ROUNDS, ht_confidence);
        struct ht_interval wide = ht_widened(&ratio, &control);
        plain += ht_verdict(&ratio) == HT_VERDICT_LESS || ht_verdict(&ratio) == HT_VERDICT_MORE;
        widened += ht_verdict(&wide) == HT_VERDICT_LESS || ht_verdict(&wide) == HT_VERDICT_MORE;
    }
    assert_in_range(plain, 1, experiments / 10);
    assert_in_range(widened, 0, experiments / 100);
}

static void more_rounds_shrink_with_the_distance(void **state) {
    (void)state;
    const struct ht_interval near = {0.97, 0.93, 1.01, 10}, far = {0.95, 0.90, 1.01, 10};
    const struct ht_interval centred = {1, 0.98, 1.02, 10}, one = {1, NAN, NAN, 1};
    assert_true(ht_more_rounds(&near) > ht_more_rounds(&far) && ht_more_rounds(&far) >= 1);
    assert_true(ht_more_rounds(&centred) >= 25 && ht_more_rounds(&centred) <= 35);
    assert_true(isnan(ht_more_rounds(&one)));
}

static void outliers_by_hand(void **state) {
    (void)state;
    // Median 10, absolute deviations 0 0 1 1 2 90, their median 1: 12 is within 3.5 / 0.6745 of it, 100 is
    // not.
    const double values[] = {10, 9, NAN, 11, 10, 12, 100}, same[] = {5, 5, 5, 5, 6}, flat[] = {5, 5, 5};
    double scratch[7];
    bool flags[7];
    assert_int_equal(ht_outliers(values, 7, scratch, flags), 1);
    assert_true(flags[6] && !flags[5] && !flags[2]);
    // Where more than half are equal the mean deviation decides: 0.2 * 1.2533, so 6 is at 4.
    assert_int_equal(ht_outliers(same, 5, scratch, flags), 1);
    assert_true(flags[4]);
    assert_int_equal(ht_outliers(flat, 3, scratch, flags), 0);
    assert_int_equal(ht_outliers(values + 2, 1, scratch, flags), 0);
}

static void conditions_are_read(void **state) {
    (void)state;
    struct ht_conditions conditions = {0};
    assert_null(ht_fail_if_add(&conditions, "time>1.05"));
    assert_null(ht_fail_if_add(&conditions, " rss_peak <= 0.5 "));
    assert_int_equal(conditions.count, 2);
    assert_true(conditions.list[0].above && !conditions.list[0].inclusive &&
                conditions.list[0].limit == 1.05);
    assert_true(!conditions.list[1].above && conditions.list[1].inclusive && conditions.list[1].figure == 1);
    static const char *const bad[] = {"",         "time",    "time>",  "time>x",   "time>1.05x", "time=1",
                                      "tim>1",    "timer>1", ">1",     "time>0",   "time>-1",    "time>nan",
                                      "time>inf", "time>>1", "1>time", "time>0x2", "time>0x1p1", "time>\t2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_non_null(ht_fail_if_add(&conditions, bad[i]));
    assert_int_equal(conditions.count, 2);
}

static void conditions_are_met_by_whole_intervals(void **state) {
    (void)state;
    struct ht_conditions conditions = {0};
    const struct ht_interval above = {1.2, 1.1, 1.3, 9}, across = {1.1, 1.0, 1.2, 9},
                             unknown = {1.2, NAN, NAN, 1};
    const struct ht_interval touching = {1.1, 1.05, 1.2, 9};
    assert_null(ht_fail_if_add(&conditions, "time>1.05"));
    const struct ht_condition *more = &conditions.list[0];
    assert_int_equal(ht_fail_if_state(more, &above), HT_CONDITION_HOLDS);
    assert_false(ht_fail_if_open(&conditions, 0, &above));
    assert_int_equal(ht_fail_if_state(more, &across), HT_CONDITION_UNDECIDED);
    assert_true(ht_fail_if_open(&conditions, 0, &across));
    assert_int_equal(ht_fail_if_state(more, &unknown), HT_CONDITION_UNDECIDED);
    assert_true(ht_fail_if_open(&conditions, 0, &unknown));
    // One end is the limit itself, which is not beyond it.
    assert_int_equal(ht_fail_if_state(more, &touching), HT_CONDITION_UNDECIDED);
    assert_false(ht_fail_if_open(&conditions, 1, &across));  // a condition of another figure
    assert_null(ht_fail_if_add(&conditions, "time>=1.05"));
    assert_int_equal(ht_fail_if_state(&conditions.list[1], &touching), HT_CONDITION_HOLDS);
    assert_null(ht_fail_if_add(&conditions, "rss_end<1"));
    assert_int_equal(ht_fail_if_state(&conditions.list[2], &above), HT_CONDITION_REFUTED);
}

static void rounds_that_would_decide(void **state) {
    (void)state;
    struct ht_conditions conditions = {0};
    char text[64];
    assert_null(ht_fail_if_add(&conditions, "time>1.05"));
    const struct ht_interval near = {1.06, 1.02, 1.10, 10}, at_limit = {1.05, 1.02, 1.08, 10};
    const struct ht_interval one = {1.2, NAN, NAN, 1};
    // Half the width is 0.0378, the distance 0.00948: four times as narrow takes sixteen times the rounds.
    double more = ht_fail_if_more_rounds(conditions.list, &near);
    assert_in_range((int)more, 140, 160);
    assert_true(isinf(ht_fail_if_more_rounds(conditions.list, &at_limit)));
    assert_true(isnan(ht_fail_if_more_rounds(conditions.list, &one)));
    assert_string_equal(ht_more_rounds_text(35, text), "needs about 35 more rounds");
    assert_string_equal(ht_more_rounds_text(20601, text), "needs over 1,000 more rounds");
    assert_string_equal(ht_more_rounds_text(INFINITY, text), "needs over 1,000 more rounds");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(intervals_cover_the_truth),
        cmocka_unit_test(the_stricter_interval_holds_the_other),
        cmocka_unit_test(few_rounds_are_judged_by_student),
        cmocka_unit_test(verdicts_say_when_they_do_not_know),
        cmocka_unit_test(the_control_widens),
        cmocka_unit_test(what_is_the_same_is_seldom_found_different),
        cmocka_unit_test(more_rounds_shrink_with_the_distance),
        cmocka_unit_test(outliers_by_hand),
        cmocka_unit_test(conditions_are_read),
        cmocka_unit_test(conditions_are_met_by_whole_intervals),
        cmocka_unit_test(rounds_that_would_decide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
