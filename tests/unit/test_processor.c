// SPDX-License-Identifier: Apache-2.0
// The simulated caches against a plain model of them: a list of lines by age.
#include "unit_support.h"

#include "processor.h"
#include "simulation.h"

enum { ACCESSES = 20000, LINES = 400, PAGE_LINES = 64 };

static const struct ht_processor_size small = {
    .level = {
        [HT_L1D] = {4, 3}, [HT_L1I] = {2, 2}, [HT_L2] = {16, 4}, [HT_DTLB] = {2, 2}, [HT_STLB] = {4, 2}}};

// When each number was used last; 0: never.
struct ages {
    uint64_t used[LINES + 1];
};

// Whether the number is among the last `ways` different ones of its set; it is used now.
static bool holds(struct ages *ages, struct ht_level_size size, uint64_t number, uint64_t now) {
    uint32_t younger = 0;
    for (uint64_t other = number % size.sets; other <= LINES; other += size.sets)
        younger += other != number && ages->used[other] > ages->used[number];
    bool there = ages->used[number] && younger < size.ways;
    ages->used[number] = now;
    return there;
}

static void misses_are_those_of_a_plain_model(void **state) {
    (void)state;
    static struct ht_processor processor;
    static struct ages level[HT_LEVELS];
    struct ht_miss_counts counts = {0}, expected = {0};
    uint64_t seed = 5;
    assert_true(ht_processor_start(&processor, &small));
    for (uint64_t now = 1; now <= ACCESSES; now++) {
        // Some lines often, all of them at times.
        uint64_t line = unit_random(&seed) % (unit_random(&seed) % 4 ? 20 : LINES), page = line / PAGE_LINES;
        if (!holds(&level[HT_DTLB], small.level[HT_DTLB], page, now)) {
            expected.dtlb++;
            expected.stlb += !holds(&level[HT_STLB], small.level[HT_STLB], page, now);
        }
        bool l1 = holds(&level[HT_L1D], small.level[HT_L1D], line, now);
        bool l2 = l1 || holds(&level[HT_L2], small.level[HT_L2], line, now);
        expected.l1d += !l1;
        expected.l2 += !l2;
        enum ht_served served = ht_processor_access(&processor, line * 64 + 8, 8, &counts);
        assert_int_equal(served, l1 ? HT_SERVED_L1 : l2 ? HT_SERVED_L2 : HT_SERVED_MEMORY);
    }
    assert_int_equal(counts.accesses, ACCESSES);
    assert_int_equal(counts.l1d, expected.l1d);
    assert_int_equal(counts.l2, expected.l2);
    assert_int_equal(counts.dtlb, expected.dtlb);
    assert_int_equal(counts.stlb, expected.stlb);
    assert_true(expected.l2 > 0 && expected.l1d > expected.l2 && expected.dtlb > expected.stlb);
}

static void an_access_over_two_lines_is_one_of_each(void **state) {
    (void)state;
    static struct ht_processor processor;
    struct ht_miss_counts counts = {0};
    assert_true(ht_processor_start(&processor, &small));
    assert_int_equal(ht_processor_access(&processor, 64 * 10 - 1, 2, &counts), HT_SERVED_MEMORY);
    assert_int_equal(counts.l1d, 2);
    assert_int_equal(counts.accesses, 1);
    assert_int_equal(ht_processor_access(&processor, 64 * 10, 64, &counts), HT_SERVED_L1);
    assert_int_equal(counts.l1d, 2);
}

static void a_miss_beside_another_is_sequential(void **state) {
    (void)state;
    static struct ht_processor processor;
    struct ht_miss_counts counts = {0};
    assert_true(ht_processor_start(&processor, &small));
    ht_processor_line(&processor, 1000, &counts);
    assert_int_equal(counts.l1d_sequential, 0);
    ht_processor_line(&processor, 1002, &counts);
    assert_int_equal(counts.l1d_sequential, 1);
    ht_processor_line(&processor, 1005, &counts);
    assert_int_equal(counts.l1d_sequential, 1);
    assert_int_equal(counts.l2_sequential, 1);
}

static void as_many_streams_are_followed_as_prefetchers_follow(void **state) {
    (void)state;
    static struct ht_processor processor;
    for (uint64_t streams = HT_STREAMS; streams <= HT_STREAMS + 1; streams++) {
        struct ht_miss_counts counts = {0};
        assert_true(ht_processor_start(&processor, &small));
        for (uint64_t line = 0; line < 8; line++)
            for (uint64_t stream = 1; stream <= streams; stream++)
                ht_processor_line(&processor, 1000 * stream + line, &counts);
        assert_int_equal(counts.l1d, 8 * streams);
        assert_int_equal(counts.l1d_sequential, streams == HT_STREAMS ? 7 * streams : 0);
    }
}

static void far_misses_are_by_how_long_ago_the_line_was(void **state) {
    (void)state;
    static struct ht_processor processor;
    const uint64_t mib = (1 << 20) / 64;
    for (int size = 0; size < HT_FARS; size++) {
        struct ht_miss_counts counts = {0};
        const uint64_t lines = (3 * mib) << size;  // 3, 6, 12 and 24 MiB
        assert_true(ht_processor_start(&processor, &small));
        for (uint64_t lap = 0; lap < 2; lap++) {
            counts = (struct ht_miss_counts){0};
            // A step from which no prefetcher learns; it has no divisor in common with the lines.
            for (uint64_t i = 0, line = 0; i < lines; i++, line = (line + 1000003) % lines)
                ht_processor_line(&processor, 1000 + line, &counts);
        }
        assert_int_equal(counts.l2, lines);
        assert_int_equal(counts.l2_sequential, 0);
        for (int i = 0; i < HT_FARS; i++) assert_int_equal(counts.far[i], i < size ? lines : 0);
    }
}

static void code_shares_the_second_level(void **state) {
    (void)state;
    static struct ht_processor processor;
    struct ht_miss_counts counts = {0};
    assert_true(ht_processor_start(&processor, &small));
    ht_processor_line(&processor, 7, &counts);
    ht_processor_code_line(&processor, 7, &counts);
    assert_int_equal(counts.l1i, 1);
    assert_int_equal(counts.l1i_l2, 0);
    ht_processor_code_line(&processor, 7, &counts);
    assert_int_equal(counts.l1i, 1);
    ht_processor_code_line(&processor, 8, &counts);
    assert_int_equal(counts.l1i_l2, 1);
}

static void a_zeroed_page_is_in_the_caches(void **state) {
    (void)state;
    static struct ht_processor processor;
    const struct ht_processor_size size = {.level = {{64, 2}, {2, 2}, {64, 4}, {2, 2}, {4, 2}}};
    struct ht_miss_counts counts = {0};
    assert_true(ht_processor_start(&processor, &size));
    ht_processor_line(&processor, PAGE_LINES, &counts);
    for (uint64_t page = 3; page < 5; page++) ht_processor_zero_page(&processor, page);
    counts = (struct ht_miss_counts){0};
    for (uint64_t line = 3 * PAGE_LINES; line < 5 * PAGE_LINES; line++)
        assert_int_equal(ht_processor_line(&processor, line, &counts), HT_SERVED_L1);
    assert_int_equal(counts.dtlb, 2);  // the kernel zeroes it at an address of its own
    assert_int_equal(ht_processor_line(&processor, PAGE_LINES, &counts), HT_SERVED_L2);  // its line has gone
}

static void sizes_that_cannot_be_are_refused(void **state) {
    (void)state;
    static struct ht_processor processor;
    struct ht_processor_size size = small;
    size.level[HT_L2].sets = 3;
    assert_false(ht_processor_start(&processor, &size));
    size.level[HT_L2] = (struct ht_level_size){1 << 16, 1 << 16};
    assert_false(ht_processor_start(&processor, &size));
    size.level[HT_L2] = (struct ht_level_size){64, 0};
    assert_false(ht_processor_start(&processor, &size));
}

static void the_processor_at_hand_can_be_simulated(void **state) {
    (void)state;
    static struct ht_processor processor;
    struct ht_geometry geometry;
    char text[HT_GEOMETRY_TEXT_BYTES];
    ht_geometry_read(&geometry);
    assert_true(ht_processor_start(&processor, &geometry.size));
    const struct ht_processor_size size = {.level = {{64, 12}, {64, 8}, {2048, 16}, {16, 6}, {128, 16}}};
    assert_string_equal(ht_geometry_text(text, &size), "64x12,64x8,2048x16,16x6,128x16");
}

static void *zeroed(size_t bytes) { return calloc(1, bytes); }

static void a_page_faults_once_until_it_is_given_back(void **state) {
    (void)state;
    enum { LEAF_PAGES = 1 << HT_TOUCH_LEAF_BITS };
    struct ht_page_touches *touches = calloc(1, sizeof *touches);
    touches->new_zeroed = zeroed;
    for (uint64_t page = LEAF_PAGES - 2; page < LEAF_PAGES + 2; page++) {
        assert_true(ht_touch_page(touches, page));
        assert_false(ht_touch_page(touches, page));
    }
    // Half a page at each end stays, and so does what lies beyond.
    ht_forget_pages(touches, (uint64_t)(LEAF_PAGES - 2) * 4096 + 2048, 3 * 4096);
    assert_false(ht_touch_page(touches, LEAF_PAGES - 2));
    assert_true(ht_touch_page(touches, LEAF_PAGES - 1));
    assert_true(ht_touch_page(touches, LEAF_PAGES));
    assert_false(ht_touch_page(touches, LEAF_PAGES + 1));
    // Moved: touched at the new place as at the old one.
    assert_true(ht_touch_page(touches, 100));
    ht_move_pages(touches, 100 * 4096, 300 * 4096, 2 * 4096);
    assert_false(ht_touch_page(touches, 300));
    assert_true(ht_touch_page(touches, 301));
    ht_forget_pages(touches, (uint64_t)1 << 46, (uint64_t)1 << 40);  // where nothing was
    for (size_t i = 0; i < sizeof touches->leaf / sizeof *touches->leaf; i++) free(touches->leaf[i]);
    free(touches);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misses_are_those_of_a_plain_model),
        cmocka_unit_test(an_access_over_two_lines_is_one_of_each),
        cmocka_unit_test(a_miss_beside_another_is_sequential),
        cmocka_unit_test(as_many_streams_are_followed_as_prefetchers_follow),
        cmocka_unit_test(far_misses_are_by_how_long_ago_the_line_was),
        cmocka_unit_test(code_shares_the_second_level),
        cmocka_unit_test(a_zeroed_page_is_in_the_caches),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(the_processor_at_hand_can_be_simulated),
        cmocka_unit_test(a_page_faults_once_until_it_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
