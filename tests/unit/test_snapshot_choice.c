// SPDX-License-Identifier: Apache-2.0
// --at, and with which samples snapshots are taken.
#include <string.h>

#include "snapshot_runs.h"
#include "unit_support.h"

#define MB UINT64_C(1000000)
enum { SAMPLES = 1000 };

static void times_are_parsed(void **state) {
    (void)state;
    struct ht_snapshot_times times = {.jumps = true};
    assert_true(ht_snapshot_times_parse("end,90s,5ms", &times));
    assert_true(times.end && !times.peak && !times.jumps);
    assert_int_equal(times.count, 2);
    assert_int_equal(times.at_ns[0], 90000000000);
    assert_int_equal(times.at_ns[1], 5000000);
    assert_true(ht_snapshot_times_parse("1s,2s,3s,4s,5s,6s,7s,8s,peak", &times));
    assert_int_equal(times.count, HT_SNAPSHOT_TIMES_MAX);
}

static void other_words_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "peak,", ",peak", "noon", "-1s", "1s,2s,3s,4s,5s,6s,7s,8s,9s"};
    struct ht_snapshot_times times = {.peak = true, .count = 1};
    char endless[4096];
    memset(endless, '1', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    assert_false(ht_snapshot_times_parse(endless, &times));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(ht_snapshot_times_parse(wrong[i], &times));
    assert_true(times.peak && times.count == 1);  // as it was
}

// Live bytes stay; RSS rises by 30 MB at sample 200, by 20 at 500, by 10 at 800, and falls to 50 at 900.
struct heap {
    struct ht_form form;
    struct ht_sample_point points[SAMPLES];
    uint64_t rss_bytes[SAMPLES], high_bytes[SAMPLES];  // high_bytes: where a peak lies within a call, else 0
    struct ht_built_form built;
};

static struct heap *a_heap(void) {
    static struct heap heap;
    heap = (struct heap){.form.samples = SAMPLES};
    heap.built = (struct ht_built_form){.form = &heap.form, .points = heap.points};
    for (uint64_t i = 0; i < SAMPLES; i++) {
        heap.points[i] = (struct ht_sample_point){.time_ns = i * 10, .event = i, .live_bytes = 5 * MB};
        heap.rss_bytes[i] = i < 200   ? 10 * MB
                            : i < 500 ? 40 * MB
                            : i < 800 ? 60 * MB
                            : i < 900 ? 70 * MB
                                      : 50 * MB;
    }
    return &heap;
}

static uint32_t choose(const char *at, struct heap *heap, struct ht_snapshot_moment *moment) {
    struct ht_snapshot_times times = {0};
    uint64_t high_bytes[SAMPLES];
    const struct ht_rss_samples rss = {heap->rss_bytes, high_bytes};
    for (uint32_t i = 0; i < SAMPLES; i++)
        high_bytes[i] = heap->high_bytes[i] ? heap->high_bytes[i] : heap->rss_bytes[i];
    assert_true(ht_snapshot_times_parse(at, &times));
    return ht_snapshot_choose(&times, &heap->built, rss, moment);
}

static void assert_moment(const struct ht_snapshot_moment *moment, uint32_t sample, const char *why) {
    assert_int_equal(moment->sample, sample);
    assert_string_equal(moment->why, why);
}

static void jumps_are_the_largest_rises(void **state) {
    (void)state;
    struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX];
    struct heap *heap = a_heap();
    assert_int_equal(choose("peak,end,jumps", heap, moment), 5);
    for (uint32_t i = 0, near[] = {200, 500}; i < 2; i++) {
        assert_in_range(moment[i].sample, near[i], near[i] + SAMPLES / 200 + 1);
        assert_string_equal(moment[i].why, "jump");
    }
    assert_moment(&moment[2], 800, "peak");
    assert_in_range(moment[3].sample, 801, 806);
    assert_moment(&moment[4], SAMPLES - 1, "end");
}

// From sample 200 to 300 evenly, and at 700 at once.
static void a_rise_of_several_stretches_is_one_jump(void **state) {
    (void)state;
    struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX];
    struct heap *heap = a_heap();
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint64_t steps = i < 200 ? 0 : i < 300 ? i - 200 : 100;
        heap->rss_bytes[i] = 10 * MB + steps * MB + (i < 700 ? 0 : 4 * MB);
    }
    assert_int_equal(choose("jumps", heap, moment), 2);
    assert_in_range(moment[0].sample, 299, 306);
    assert_in_range(moment[1].sample, 700, 706);
}

static void small_rises_are_no_jumps(void **state) {
    (void)state;
    struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX];
    struct heap *heap = a_heap();
    for (uint32_t i = 0; i < SAMPLES; i++) heap->rss_bytes[i] = 100 * MB + i * 1000;
    assert_int_equal(choose("jumps", heap, moment), 0);
}

static void of_equal_peaks_the_one_with_most_live(void **state) {
    (void)state;
    struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX];
    struct heap *heap = a_heap();
    heap->points[850].live_bytes++;
    assert_int_equal(choose("peak", heap, moment), 1);
    assert_moment(&moment[0], 850, "peak");
}

// Before the call where RSS is more then, else after it.
static void a_peak_within_a_call_has_a_snapshot_next_to_it(void **state) {
    (void)state;
    struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX];
    struct heap *heap = a_heap();
    heap->high_bytes[200] = 100 * MB;
    assert_int_equal(choose("peak", heap, moment), 1);
    assert_moment(&moment[0], 200, "peak");
    heap->high_bytes[900] = 120 * MB;
    assert_int_equal(choose("peak", heap, moment), 1);
    assert_moment(&moment[0], 899, "peak");
    heap->high_bytes[0] = 130 * MB;
    assert_int_equal(choose("peak", heap, moment), 1);
    assert_moment(&moment[0], 0, "peak");
}

// The last sample that is not later; of several reasons the first.
static void times_are_found_once(void **state) {
    (void)state;
    struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX];
    struct heap *heap = a_heap();
    assert_int_equal(choose("1h,109ns,100ns,0ns,end", heap, moment), 3);
    assert_moment(&moment[0], 0, "time");
    assert_moment(&moment[1], 10, "time");
    assert_moment(&moment[2], SAMPLES - 1, "end");
}

// All calls come in the first tenth of the time: stretches of equal time see the rest, those of as many calls that part.
static void stretches_are_of_time_and_of_calls(void **state) {
    (void)state;
    uint32_t sample[HT_STRETCHES_MAX];
    struct heap *heap = a_heap();
    assert_int_equal(ht_stretches_choose(&heap->built, sample), 100);
    assert_int_equal(sample[99], SAMPLES - 1);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        heap->points[i].time_ns = i < 500 ? i : i * 100;
        heap->points[i].event = i < 500 ? i : 500;
    }
    uint32_t count = ht_stretches_choose(&heap->built, sample), early = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(i == 0 || sample[i] > sample[i - 1]);
        early += sample[i] < 500;
    }
    assert_in_range(count, 140, HT_STRETCHES_MAX);
    assert_in_range(early, 95, 110);
    heap->form.slots = 1 << 30;
    assert_in_range(ht_stretches_choose(&heap->built, sample), 15, 25);
    heap->form.samples = 0;
    assert_int_equal(ht_stretches_choose(&heap->built, sample), 0);
}

static void no_samples_no_snapshots(void **state) {
    (void)state;
    struct ht_snapshot_moment moment[HT_SNAPSHOTS_MAX];
    struct heap *heap = a_heap();
    heap->form.samples = 0;
    assert_int_equal(choose("peak,end,jumps,1s", heap, moment), 0);
    heap->form.samples = 1;
    assert_int_equal(choose("peak,end,jumps,1s", heap, moment), 1);
    assert_moment(&moment[0], 0, "peak");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_parsed),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(jumps_are_the_largest_rises),
        cmocka_unit_test(a_rise_of_several_stretches_is_one_jump),
        cmocka_unit_test(small_rises_are_no_jumps),
        cmocka_unit_test(of_equal_peaks_the_one_with_most_live),
        cmocka_unit_test(a_peak_within_a_call_has_a_snapshot_next_to_it),
        cmocka_unit_test(times_are_found_once),
        cmocka_unit_test(stretches_are_of_time_and_of_calls),
        cmocka_unit_test(no_samples_no_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
