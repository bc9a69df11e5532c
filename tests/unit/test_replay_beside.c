// SPDX-License-Identifier: Apache-2.0
// Figures beside time and RSS, by hand: latencies, counters, what is left, slop; fragmentation's edges.
#include "unit_support.h"

#include <math.h>
#include <string.h>

#include "latency_figures.h"
#include "run_figures.h"

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

// Against the sorted values themselves, over ten orders of magnitude.
static void quantiles_are_those_of_the_sorted_values(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static const double shares[] = {0.5, 0.9, 0.99, 0.999, 1};
    static uint64_t values[COUNT];
    struct ht_histogram histogram = {0};
    uint64_t seed = 3;
    for (int i = 0; i < COUNT; i++) {
        values[i] = unit_random(&seed) >> (24 + unit_random(&seed) % 40);
        assert_int_equal(ht_histogram_add(&histogram, values[i], 1), 0);
    }
    qsort(values, COUNT, sizeof *values, by_value);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        double truth = (double)values[(int)ceil(shares[i] * COUNT) - 1];
        assert_true(fabs(ht_histogram_quantile(&histogram, shares[i]) - truth) <= 0.004 * truth);
    }
    ht_histogram_free(&histogram);
}

static void small_values_and_the_highest_are_exact(void **state) {
    (void)state;
    struct ht_histogram histogram = {0}, other = {0};
    assert_true(isnan(ht_histogram_quantile(&histogram, 0.5)));
    ht_histogram_add(&histogram, 255, 3);
    ht_histogram_add(&histogram, 0, 3);
    assert_true(ht_histogram_quantile(&histogram, 0.5) == 0);
    assert_true(ht_histogram_quantile(&histogram, 0.51) == 255);
    ht_histogram_add(&other, 1000001, 4);
    assert_int_equal(ht_histogram_merge(&histogram, &other), 0);
    assert_int_equal(histogram.total, 10);
    assert_true(ht_histogram_quantile(&histogram, 0.6) == 255);
    assert_true(ht_histogram_quantile(&histogram, 1) <= 1000001);
    assert_true(fabs(ht_histogram_quantile(&histogram, 1) - 1000001) < 4000);
    ht_histogram_add(&histogram, UINT64_MAX, 1);  // beyond the last bucket
    assert_int_equal(histogram.highest, UINT64_MAX);
    ht_histogram_free(&histogram);
    ht_histogram_free(&other);
}

static void every_bucket_holds_its_own_values(void **state) {
    (void)state;
    for (unsigned bit = 0; bit < 47; bit++) {
        for (int around = -1; around <= 1; around++) {
            struct ht_histogram histogram = {0};
            uint64_t value = (UINT64_C(1) << bit) + (uint64_t)around;
            ht_histogram_add(&histogram, value, 1);
            ht_histogram_add(&histogram, UINT64_MAX, 1);
            double told = ht_histogram_quantile(&histogram, 0.5);
            assert_true(fabs(told - (double)value) <= 0.004 * (double)value);
            ht_histogram_free(&histogram);
        }
    }
}

static void latencies_by_hand(void **state) {
    (void)state;
    struct ht_form form = {.readings = 4};
    struct ht_reading_point points[] = {{8, HT_MALLOC}, {4096, HT_FREE}, {4097, HT_MALLOC}, {8, HT_MALLOC}};
    const struct ht_reading readings[] = {{30, 20}, {HT_READING_DROPPED, 0}, {50, 40}, {9, 0}};
    struct ht_built_form built = {.fd = -1, .form = &form, .reading_points = points};
    struct ht_outcome outcome = {.ticks = 1000, .ticks_ns = 500, .clock_cost_ticks = 10};
    struct ht_latencies latencies = {0}, merged = {0};
    assert_int_equal(ht_latencies_add(&latencies, &built, readings, &outcome), 0);
    assert_int_equal(latencies.taken, 3);
    assert_int_equal(latencies.dropped, 1);
    assert_true(latencies.floor_ns == 5);
    // (30 - 10) / 2, (50 - 10) / 2; what is below the floor is nothing.
    struct ht_percentiles malloc_ns = ht_percentiles_of(&latencies.functions[HT_MALLOC]);
    assert_true(malloc_ns.count == 3 && malloc_ns.p50_ns == 10 && malloc_ns.max_ns == 20);
    assert_int_equal(latencies.functions[HT_FREE].total, 0);
    assert_true(isnan(ht_percentiles_of(&latencies.functions[HT_FREE]).max_ns));
    assert_int_equal(latencies.sizes[HT_KIND_ALLOC][3].total, 2);
    assert_int_equal(latencies.sizes[HT_KIND_ALLOC][13].total, 1);
    outcome.clock_cost_ticks = 8;
    ht_latencies_merge(&merged, &latencies);
    ht_latencies_free(&latencies);
    latencies = (struct ht_latencies){0};
    ht_latencies_add(&latencies, &built, readings, &outcome);
    ht_latencies_merge(&merged, &latencies);
    assert_true(merged.taken == 6 && merged.dropped == 2 && merged.floor_ns == 4);
    assert_true(ht_percentiles_of(&merged.functions[HT_MALLOC]).max_ns == 21);
    ht_latencies_free(&latencies);
    ht_latencies_free(&merged);
}

static void size_classes(void **state) {
    (void)state;
    assert_int_equal(ht_size_class(0), 0);
    assert_int_equal(ht_size_class(1), 0);
    assert_int_equal(ht_size_class(2), 1);
    assert_int_equal(ht_size_class(4096), 12);
    assert_int_equal(ht_size_class(4097), 13);
    assert_int_equal(ht_size_class(UINT64_MAX), 64);
    static_assert(HT_SIZE_CLASSES == 65, "the last class");
}

static void counters_without_the_nulls(void **state) {
    (void)state;
    static struct ht_child_figures child, null;
    struct ht_counter_figures figures;
    for (int i = 0; i < HT_PERF_EVENTS; i++) {
        child.perf[i] = (struct ht_perf_count){.value = 100};
        null.perf[i] = (struct ht_perf_count){.value = 30};
    }
    child.perf[HT_PERF_CYCLES] = (struct ht_perf_count){.value = HT_FIGURE_UNKNOWN, .refusal = 2};
    null.perf[HT_PERF_LLC_MISSES].value = HT_FIGURE_UNKNOWN;
    child.voluntary_switches = 10;
    child.repeats = 2;
    null.repeats = 1;
    ht_counter_figures(&child, &null, &figures);
    // 100 of two repeats, less 30 of one.
    assert_true(figures.perf[HT_PERF_INSTRUCTIONS] == 20);
    assert_true(isnan(figures.perf[HT_PERF_CYCLES]) && isnan(figures.perf[HT_PERF_LLC_MISSES]));
    assert_true(figures.perf[HT_PERF_CONTEXT_SWITCHES] == 50 && figures.perf[HT_PERF_MIGRATIONS] == 50);
    assert_true(figures.refusal == 2 && !figures.user_only && figures.voluntary_switches == 5);
    ht_counter_figures(&null, NULL, &figures);
    assert_true(figures.perf[HT_PERF_INSTRUCTIONS] == 30 && figures.refusal == 0);
}

static void leftovers_without_the_nulls(void **state) {
    (void)state;
    static struct ht_child_figures child, null;
    struct ht_leftover_figures figures;
    child.residency_end =
        (struct ht_kernel_view){.rss_bytes = 500, .lazyfree_bytes = 40, .anon_huge_bytes = 8};
    child.residency[0] = (struct ht_kernel_view){.rss_bytes = 900, .lazyfree_bytes = 60};
    child.residency[1] = (struct ht_kernel_view){.rss_bytes = 800, .lazyfree_bytes = 99};
    child.residencies = 2;
    child.residency_end.swap_bytes = HT_FIGURE_UNKNOWN;
    child.rss_after_free_bytes = 300;
    child.rss_after_purge_bytes = 50;
    null.rss_after_free_bytes = 100;
    ht_leftover_figures(&child, &null, &figures);
    assert_true(figures.rss_after_free_bytes == 200 && isnan(figures.rss_after_purge_bytes));
    assert_true(figures.lazyfree_bytes == 40 && figures.lazyfree_peak_bytes == 60);
    assert_true(figures.anon_huge_bytes == 8 && isnan(figures.swap_bytes) && figures.swap_peak_bytes == 0);
    child.purged = 1;
    ht_leftover_figures(&child, &null, &figures);
    assert_true(figures.rss_after_purge_bytes == 0);
}

static void slop_by_hand(void **state) {
    (void)state;
    static struct ht_child_figures child = {
        .knows_usable = 1, .peak_live_bytes = 200, .peak_usable_bytes = 260};
    struct ht_form form = {.samples = 3};
    struct ht_sample_point points[] = {{0, 0, 100}, {10, 1, 200}, {40, 2, 50}};
    struct ht_built_form built = {.fd = -1, .form = &form, .points = points};
    const uint64_t slop[] = {20, 60, 10}, untouched[] = {0, 4, 0};
    struct ht_accounting_figures figures;
    child.report_end.live_bytes = 50;
    child.report_end.usable_bytes = 58;
    child.reports = 2;
    child.report[0].live_bytes = 190;
    child.report[1].live_bytes = 60;
    assert_true(ht_accounting_figures(&built, &child, slop, untouched, &figures));
    assert_true(figures.slop_peak_bytes == 60 && figures.slop_end_bytes == 8);
    assert_true(figures.slop_mean_bytes == (20 * 10 + 60 * 30) / 40.0);
    assert_true(ht_report_at_peak(&figures) == &figures.child->report[0]);
    ht_accounting_figures_free(&figures);
    child.knows_usable = 0;
    assert_true(ht_accounting_figures(&built, &child, slop, untouched, &figures));
    assert_true(isnan(figures.slop_peak_bytes) && isnan(figures.slop_mean_bytes));
    ht_accounting_figures_free(&figures);
}

// RSS is most at the last two points, of which more is live at the first.
static void rss_is_taken_apart(void **state) {
    (void)state;
    static struct ht_child_figures child = {
        .knows_usable = 1, .untouched_end_bytes = 5, .report_end = {.live_bytes = 50, .usable_bytes = 58}};
    struct ht_form form = {.samples = 3};
    struct ht_sample_point points[] = {{0, 0, 100}, {10, 1, 200}, {40, 2, 50}};
    struct ht_built_form built = {.fd = -1, .form = &form, .points = points};
    const uint64_t slop[] = {20, 60, 10}, untouched[] = {0, 90, 0}, rss[] = {120, 150, 150};
    struct ht_outcome outcome = {.rss_end_bytes = 40};
    struct ht_leftover_figures left = {.lazyfree_peak_bytes = 3,
                                       .lazyfree_bytes = 2,
                                       .rss_after_free_bytes = 30,
                                       .rss_after_purge_bytes = NAN};
    struct ht_memory_figures memory;
    struct ht_accounting_figures accounting;
    struct ht_decomposition parts;
    assert_true(
        ht_memory_figures(&built, &outcome, (struct ht_rss_samples){rss, NULL}, NULL, NULL, NULL, &memory));
    assert_true(memory.peak_sample == 1 && memory.rss_peak_bytes == 150);
    assert_true(ht_accounting_figures(&built, &child, slop, untouched, &accounting));
    ht_decompose(&built, &memory, &left, &accounting, &parts);
    assert_true(parts.peak.requested_bytes == 200 && parts.peak.internal_bytes == 60);
    assert_true(parts.peak.untouched_bytes == 90 && parts.peak.lazyfree_bytes == 3);
    assert_true(parts.peak.other_bytes == 150 - (200 + 60 - 90));  // less than nothing, and told
    assert_true(parts.end.internal_bytes == 8 && parts.end.other_bytes == 40 - (58 - 5));
    assert_true(parts.after_free_bytes == 30 && isnan(parts.after_purge_bytes));
    accounting.child->knows_usable = 0;
    ht_decompose(&built, &memory, &left, &accounting, &parts);
    assert_true(isnan(parts.peak.internal_bytes) && parts.peak.other_bytes == 150 - (200 - 90));
    ht_accounting_figures_free(&accounting);
    ht_decompose(&built, &memory, &left, &accounting, &parts);
    assert_true(isnan(parts.peak.rss_bytes) && isnan(parts.end.other_bytes));
    free(memory.rss_bytes);
}

static void harness_share(void **state) {
    (void)state;
    struct ht_time_figures figures = {.harness_time_ns = 25, .alloc_time_ns = 75};
    assert_true(ht_harness_share(&figures) == 0.25);
    figures.alloc_time_ns = NAN;
    assert_true(isnan(ht_harness_share(&figures)));
}

// Johnstone & Wilson's example of why there are four: most is used where little is live.
static void the_four_fragmentations_differ(void **state) {
    (void)state;
    struct ht_form form = {.samples = 4};
    struct ht_sample_point points[] = {{0, 0, 0}, {10, 1, 400}, {20, 2, 100}, {40, 3, 100}};
    struct ht_built_form built = {.fd = -1, .form = &form, .points = points, .live_peak_bytes = 400};
    const uint64_t rss[] = {50, 500, 600, 300}, null_rss[] = {0, 0, 0, 0};
    struct ht_outcome outcome = {0};
    struct ht_memory_figures figures;
    assert_true(ht_memory_figures(&built, &outcome, (struct ht_rss_samples){rss, NULL}, &outcome, null_rss,
                                  NULL, &figures));
    // Nothing is live at first: no ratio there. Then 500/400 for 10, 600/100 for 20; the last point has no
    // time to count.
    assert_true(fabs(figures.fragmentation[0] - (1.25 * 10 + 6 * 20) / 30) < 1e-12);
    assert_true(figures.fragmentation[1] == 1.25);
    assert_true(figures.fragmentation[2] == 6);
    assert_true(figures.fragmentation[3] == 1.5);
    free(figures.rss_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_sorted_values),
        cmocka_unit_test(small_values_and_the_highest_are_exact),
        cmocka_unit_test(every_bucket_holds_its_own_values),
        cmocka_unit_test(latencies_by_hand),
        cmocka_unit_test(size_classes),
        cmocka_unit_test(counters_without_the_nulls),
        cmocka_unit_test(leftovers_without_the_nulls),
        cmocka_unit_test(rss_is_taken_apart),
        cmocka_unit_test(slop_by_hand),
        cmocka_unit_test(harness_share),
        cmocka_unit_test(the_four_fragmentations_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
