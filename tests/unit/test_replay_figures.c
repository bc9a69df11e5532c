// SPDX-License-Identifier: Apache-2.0
// The launcher's arithmetic: random order, run figures, the digest of a trace.
#include "unit_support.h"

#include <math.h>
#include <string.h>

#include "file_digest.h"
#include "random_numbers.h"
#include "recorded_program.h"
#include "run_figures.h"

static void every_allocator_runs_once_in_a_round(void **state) {
    (void)state;
    enum { COUNT = 5, ROUNDS = 5000 };
    struct ht_random random = {42};
    int at_place[COUNT][COUNT] = {{0}};
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t order[COUNT];
        bool seen[COUNT] = {false};
        ht_random_order(&random, order, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_true(order[i] < COUNT && !seen[order[i]]);
            seen[order[i]] = true;
            at_place[order[i]][i]++;
        }
    }
    for (int a = 0; a < COUNT; a++) {
        for (int i = 0; i < COUNT; i++)
            assert_in_range(at_place[a][i], ROUNDS / COUNT * 9 / 10, ROUNDS / COUNT * 11 / 10);
    }
}

static void one_seed_gives_one_order(void **state) {
    (void)state;
    struct ht_random a = {7}, b = {7};
    for (int i = 0; i < 100; i++) {
        uint32_t x[8], y[8];
        ht_random_order(&a, x, 8);
        ht_random_order(&b, y, 8);
        assert_memory_equal(x, y, sizeof x);
    }
}

static void the_nulls_time_is_taken_off(void **state) {
    (void)state;
    struct ht_built_form built = {.fd = -1, .calls_total = 100};
    struct ht_outcome flat = {.cpu_ns = 5000}, null_flat = {.cpu_ns = 1000};
    struct ht_timed_readings timed = {.ns_per_tick = 1, .clock_cost_ticks = 10, .taken = 10};
    struct ht_timed_readings null_timed = timed;
    struct ht_time_figures figures;
    built.calls[HT_MALLOC] = built.calls[HT_FREE] = 50;
    timed.functions[HT_MALLOC] = (struct ht_timed_function){5, 5 * (10 + 32), 5 * (10 + 20)};
    timed.functions[HT_FREE] = (struct ht_timed_function){5, 5 * (10 + 32), 5 * 10};
    null_timed.functions[HT_MALLOC] = null_timed.functions[HT_FREE] =
        (struct ht_timed_function){5, 5 * 12, 5 * 10};
    ht_time_figures(&built, &flat, &timed, &null_flat, &null_timed, false, &figures);
    assert_true(figures.alloc_time_ns == 4000 && figures.harness_time_ns == 1000 &&
                figures.ns_per_call == 40);
    // malloc 30 and 20 for the touch, free 30, of 80 in all: shares of the 4000.
    assert_true(fabs(figures.functions[HT_MALLOC].time_ns - 1500) < 1e-6);
    assert_true(fabs(figures.functions[HT_MALLOC].touch_ns - 1000) < 1e-6);
    assert_true(fabs(figures.functions[HT_FREE].time_ns - 1500) < 1e-6);
    assert_true(fabs(figures.touch_time_ns - 1000) < 1e-6);
    ht_time_figures(&built, &null_flat, &null_timed, &null_flat, &null_timed, false, &figures);
    assert_true(isnan(figures.alloc_time_ns) && figures.harness_time_ns == 1000);
    // With polluted caches the total is the timed calls' own: 80 for each of 50 pairs.
    ht_time_figures(&built, &flat, &timed, &null_flat, &null_timed, true, &figures);
    assert_true(fabs(figures.alloc_time_ns - 4000) < 1e-6 &&
                fabs(figures.functions[HT_FREE].time_ns - 1500) < 1e-6);
    timed.functions[HT_FREE].call_ticks *= 2;
    ht_time_figures(&built, &flat, &timed, &null_flat, &null_timed, true, &figures);
    assert_true(fabs(figures.alloc_time_ns - (4000 + 50 * 42)) < 1e-6);
}

static void readings_are_summed_by_function(void **state) {
    (void)state;
    struct ht_form form = {.readings = 3};
    struct ht_reading_point points[] = {{8, HT_MALLOC}, {0, HT_FREE}, {9, HT_MALLOC}};
    const struct ht_reading readings[] = {{30, 20}, {HT_READING_DROPPED, 0}, {50, 40}};
    struct ht_built_form built = {.fd = -1, .form = &form, .reading_points = points};
    struct ht_outcome outcome = {.ticks = 1000, .ticks_ns = 500, .clock_cost_ticks = 10};
    struct ht_timed_readings sum;
    ht_timed_readings_sum(&built, readings, &outcome, &sum);
    assert_int_equal(sum.taken, 2);
    assert_int_equal(sum.dropped, 1);
    assert_true(ht_timed_mean_ns(&sum, HT_MALLOC, false) == 15 &&
                ht_timed_mean_ns(&sum, HT_MALLOC, true) == 10);
    assert_true(isnan(ht_timed_mean_ns(&sum, HT_FREE, false)));
}

static void memory_figures_by_hand(void **state) {
    (void)state;
    struct ht_form form = {.samples = 3};
    struct ht_sample_point points[] = {{0, 0, 100}, {10, 1, 200}, {40, 2, 50}};
    struct ht_built_form built = {.fd = -1, .form = &form, .points = points, .live_peak_bytes = 200};
    const uint64_t rss[] = {210, 410, 610}, null_rss[] = {10, 10, 10};
    struct ht_outcome outcome = {.rss_end_bytes = 510}, null_outcome = {.rss_end_bytes = 10};
    struct ht_memory_figures figures;
    assert_true(ht_memory_figures(&built, &outcome, (struct ht_rss_samples){rss, NULL}, &null_outcome,
                                  null_rss, NULL, &figures));
    assert_true(figures.rss_peak_bytes == 600 && figures.rss_end_bytes == 500);
    assert_true(figures.rss_mean_bytes == (200 * 10 + 400 * 30) / 40.0);
    assert_true(figures.fragmentation[0] == 2 && figures.fragmentation[1] == 2);
    assert_true(figures.fragmentation[2] == 12 && figures.fragmentation[3] == 3);
    assert_true(isnan(figures.process_rss_peak_bytes) && isnan(figures.process_rss_end_bytes));
    free(figures.rss_bytes);
}

// A peak within a call counts for what is most, not for the mean; a high below the reading itself is none.
static void peaks_within_calls(void **state) {
    (void)state;
    struct ht_form form = {.samples = 3};
    struct ht_sample_point points[] = {{0, 0, 100}, {10, 1, 200}, {40, 2, 50}};
    struct ht_built_form built = {.fd = -1, .form = &form, .points = points, .live_peak_bytes = 200};
    const uint64_t rss[] = {210, 410, 610}, high[] = {0, 1010, 610}, null_rss[] = {10, 10, 10};
    const uint64_t own[] = {5000, 300, 500};
    struct ht_outcome outcome = {.rss_end_bytes = 510}, null_outcome = {.rss_end_bytes = 10};
    struct ht_memory_figures figures;
    assert_true(ht_memory_figures(&built, &outcome, (struct ht_rss_samples){rss, high}, &null_outcome,
                                  null_rss, own, &figures));
    assert_true(figures.rss_peak_bytes == 1000 && figures.rss_between_calls_peak_bytes == 600);
    assert_int_equal(figures.peak_sample, 1);
    assert_true(figures.rss_mean_bytes == (200 * 10 + 400 * 30) / 40.0);
    assert_true(figures.fragmentation[0] == 2 && figures.fragmentation[1] == 2);
    assert_true(figures.fragmentation[2] == 5 && figures.fragmentation[3] == 5);
    assert_true(figures.process_rss_peak_bytes == 200 + 5000);
    assert_true(figures.high_bytes[0] == 200 && figures.high_bytes[1] == 1000 &&
                figures.high_bytes[2] == 600);
    free(figures.rss_bytes);
}

// The process is largest where the sum is: neither at the heap's peak nor at its own memory's.
static void the_process_at_one_moment(void **state) {
    (void)state;
    struct ht_form form = {.samples = 3};
    struct ht_sample_point points[] = {{5, 0, 100}, {20, 1, 200}, {60, 2, 50}};
    struct ht_built_form built = {.fd = -1, .form = &form, .points = points, .live_peak_bytes = 200};
    struct ht_sample samples[] = {{.time_ns = 10, .own_rss_bytes = 1000},
                                  {.time_ns = 30, .own_rss_bytes = 800},
                                  {.time_ns = 50, .own_rss_bytes = 0}};
    struct ht_trace_facts facts = {.samples = samples, .samples_count = 3};
    struct ht_own_memory own;
    assert_true(ht_own_memory_take(&facts, &own));
    uint64_t *bytes = ht_own_memory_at(&own, &built);
    assert_true(bytes && bytes[0] == 1000 && bytes[1] == 900 && bytes[2] == 0);
    const uint64_t rss[] = {110, 410, 610}, null_rss[] = {10, 10, 10};
    struct ht_outcome outcome = {.rss_end_bytes = 510}, null_outcome = {.rss_end_bytes = 10};
    struct ht_memory_figures figures;
    assert_true(ht_memory_figures(&built, &outcome, (struct ht_rss_samples){rss, NULL}, &null_outcome,
                                  null_rss, bytes, &figures));
    assert_true(figures.rss_peak_bytes == 600 && figures.process_rss_peak_bytes == 400 + 900);
    assert_true(figures.process_rss_end_bytes == 500);
    free(figures.rss_bytes);
    free(bytes);
    ht_own_memory_free(&own);
    facts.samples_count = 0;
    assert_true(ht_own_memory_take(&facts, &own) && !ht_own_memory_at(&own, &built));
}

static void digest_of(const char *text, size_t bytes, char hex[HT_DIGEST_TEXT_BYTES]) {
    char path[256];
    FILE *file = fopen(unit_path(path, "digest"), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(ht_file_sha256(path, hex), 0);
    unlink(path);
    assert_int_equal(ht_file_sha256(path, hex), -1);
}

static void sha256_of_known_files(void **state) {
    (void)state;
    char hex[HT_DIGEST_TEXT_BYTES];
    static char many[1000000];
    digest_of("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_of("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    memset(many, 'a', sizeof many);
    digest_of(many, sizeof many, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocator_runs_once_in_a_round),
        cmocka_unit_test(one_seed_gives_one_order),
        cmocka_unit_test(the_nulls_time_is_taken_off),
        cmocka_unit_test(readings_are_summed_by_function),
        cmocka_unit_test(memory_figures_by_hand),
        cmocka_unit_test(peaks_within_calls),
        cmocka_unit_test(the_process_at_one_moment),
        cmocka_unit_test(sha256_of_known_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
