// SPDX-License-Identifier: Apache-2.0
// What the program's own memory was between two measurements of it.
#include "sample_line.h"
#include "unit_support.h"

static uint64_t own_written[8];
static size_t written;

// In place of the trace's writer, which must only be there.
static char no_writer;
void ht_trace_put_sample(struct ht_trace_writer *writer, const struct ht_sample *sample) {
    (void)writer;
    own_written[written++] = sample->own_rss_bytes;
}

enum { MUCH = 1 << 20 };

// Calls before each of the samples, what they allocated, and what lived.
struct calls {
    uint64_t calls[5], allocated[5], live[5];
};
static const struct calls many = {{0, 1, 2, 3, 4}, {0, MUCH, 2 * MUCH, 3 * MUCH, 4 * MUCH}, {0}};

// Samples at 0, 10, 20, 90 and 100 ns; the first and the last measured own memory. own_last 0: the last did not.
static bool many_threads;
static void put_among(const struct calls *calls, const uint64_t anon[5], uint64_t own_first,
                      uint64_t own_last) {
    static const uint64_t time_ns[5] = {0, 10, 20, 90, 100};
    struct merge_totals totals = {0};
    struct sample_line *line = calloc(1, sizeof *line);
    void *nobody = &no_writer;  // only its being there counts
    line->totals = &totals;
    line->writer = nobody;
    line->many_threads = many_threads;
    written = 0;
    for (unsigned i = 0; i < 5; i++) {
        bool last = i == 4 && own_last;
        struct ht_sample sample = {.time_ns = time_ns[i],
                                   .event = calls->calls[i],
                                   .rss_anon_bytes = anon[i],
                                   .own_rss_bytes = last ? own_last : own_first,
                                   .own_fresh = i == 0 || last};
        sample_line_put(line, &(struct line_sample){sample, calls->live[i], calls->allocated[i]});
    }
    sample_line_end(line);
    assert_int_equal(written, 5);
    assert_int_equal(own_written[0], own_first);
    if (own_last) assert_int_equal(own_written[4], own_last);
    free(line);
}

static void put(const uint64_t anon[5], uint64_t own_first, uint64_t own_last) {
    put_among(&many, anon, own_first, own_last);
}

static void moves_with_rss(void **state) {
    (void)state;
    // A collector gives back 800 of 1,000 at the very end; over time that would look like a heap that grows.
    put((const uint64_t[]){1000, 1000, 1000, 1000, 200}, 900, 100);
    assert_int_equal(own_written[1], 900);
    assert_int_equal(own_written[3], 900);
    // Half of the rise is the heap's, at any time.
    put((const uint64_t[]){100, 100, 200, 300, 300}, 0, 100);
    assert_int_equal(own_written[1], 0);
    assert_int_equal(own_written[2], 50);
    assert_int_equal(own_written[3], 100);
    // Beyond both ends it is the heap that moved.
    put((const uint64_t[]){100, 50, 900, 200, 200}, 0, 100);
    assert_int_equal(own_written[1], 0);
    assert_int_equal(own_written[2], 100);
}

static void moves_with_time(void **state) {
    (void)state;
    put((const uint64_t[]){1000, 1000, 1000, 1000, 1000}, 100, 200);
    assert_int_equal(own_written[1], 110);
    assert_int_equal(own_written[3], 190);
    // The heap grew by more than own memory shrank by.
    put((const uint64_t[]){1000, 1100, 1200, 1900, 2000}, 200, 100);
    assert_int_equal(own_written[2], 180);
}

static void peaks_between_calls_are_own(void **state) {
    (void)state;
    struct calls calls = many;
    calls.calls[1] = 0;  // none since the first sample
    calls.allocated[1] = 0;
    put_among(&calls, (const uint64_t[]){1000, 1500, 1500, 900, 1100}, 500, 600);
    assert_int_equal(own_written[1], 1000);
    assert_int_equal(own_written[2], 600);
    calls.calls[3] = 4;
    put_among(&calls, (const uint64_t[]){1000, 1000, 1050, 1300, 1100}, 500, 600);
    assert_int_equal(own_written[2], 550);
    assert_int_equal(own_written[3], 800);
}

// A free is recorded before its memory goes.
static void where_a_free_may_be_under_way_a_peak_is_not_own(void **state) {
    (void)state;
    struct calls calls = many;
    calls.calls[3] = 4;
    many_threads = true;
    put_among(&calls, (const uint64_t[]){1000, 1000, 1050, 1300, 1100}, 500, 600);
    assert_int_equal(own_written[3], 600);
    calls = (struct calls){{0}, {0}, {0}};
    put_among(&calls, (const uint64_t[]){1000, 1500, 1500, 900, 1100}, 500, 600);
    assert_int_equal(own_written[1], 1000);
    many_threads = false;
}

// Pairs of malloc and free, of 4 bytes each, while 400 or 2,000 are live.
static void what_calls_cannot_explain_is_own(void **state) {
    (void)state;
    enum { ADDED = 4 + 1 + 2 * 32 };
    struct calls pairs = {{0, 2, 4, 6, 8}, {0, 4, 8, 12, 16}, {400, 400, 400, 400, 400}};
    put_among(&pairs, (const uint64_t[]){1000, 9000, 1050, 500, 1100}, 500, 600);
    assert_int_equal(own_written[1], 9000 - (500 + ADDED));
    assert_int_equal(own_written[2], 550);
    // Of 500 in the heap 400 are blocks, of which 12 may be others by now.
    assert_int_equal(own_written[3], 500 - (400 - 12));
    // Between the ends, too.
    put_among(&pairs, (const uint64_t[]){10000, 9000, 8000, 2000, 1000}, 9500, 500);
    assert_int_equal(own_written[1], 8500);
    assert_int_equal(own_written[3], 1500);
    // No measurement follows.
    put_among(&pairs, (const uint64_t[]){1000, 9000, 9000, 9000, 9000}, 500, 0);
    assert_int_equal(own_written[4], 9000 - (500 + 4 * ADDED));
    // Blocks that were not filled when own memory was measured.
    for (unsigned i = 0; i < 5; i++) pairs.live[i] = 2000;
    put_among(&pairs, (const uint64_t[]){1000, 2500, 3000, 2500, 1000}, 500, 500);
    assert_int_equal(own_written[1], 500);
    assert_int_equal(own_written[2], 3000 - (2000 + 2 * ADDED));
}

// An allocator that takes far more than it is asked for: the next measurement shows it.
static void what_stays_in_the_heap_was_it_before(void **state) {
    (void)state;
    const struct calls calls = {{0, 2, 4, 6, 8}, {0, 4, 8, 12, 16}, {400, 400, 400, 400, 400}};
    put_among(&calls, (const uint64_t[]){1000, 3000, 5000, 7000, 9000}, 500, 500);
    assert_int_equal(own_written[1], 500);
    assert_int_equal(own_written[3], 500);
}

enum { MB = 1000000 };

// Of a heap of 10 MB with 10 MB of blocks, while own memory comes and goes.
struct put_sample {
    uint64_t rss_mb, own_mb, heap_mb, mapped_mb;
    bool fresh, looked, late;
};

static struct merge_totals put_looks(const struct put_sample *samples, size_t count) {
    static struct merge_totals totals;
    struct sample_line *line = calloc(1, sizeof *line);
    void *nobody = &no_writer;
    totals = (struct merge_totals){0};
    line->totals = &totals;
    line->writer = nobody;
    line->many_threads = true;
    written = 0;
    for (size_t i = 0; i < count; i++) {
        const struct put_sample *put = &samples[i];
        const struct ht_sample sample = {.time_ns = 10 * i,
                                         .event = 1000 * i,
                                         .rss_anon_bytes = put->rss_mb * MB,
                                         .own_rss_bytes = put->own_mb * MB,
                                         .own_fresh = put->fresh};
        sample_line_put(line, &(struct line_sample){.sample = sample,
                                                    .live_bytes = 10 * MB,
                                                    .allocated_bytes = i * 1000 * MB,
                                                    .heap_bytes = put->heap_mb * MB,
                                                    .mapped_bytes = put->mapped_mb * MB,
                                                    .looked = put->looked,
                                                    .late = put->late});
    }
    sample_line_end(line);
    assert_int_equal(written, count);
    free(line);
    return totals;
}

static void what_is_not_around_blocks_is_own(void **state) {
    (void)state;
    const struct put_sample samples[] = {{12, 2, 10, 0, true, true, false},
                                         // Counted, but by the next look the hooks have missed 300 MB.
                                         {312, 2, 0, 0, true, false, false},
                                         {312, 2, 10, 0, true, true, false},
                                         // At both looks they have missed the same.
                                         {322, 12, 0, 0, true, false, false},
                                         {312, 2, 10, 0, true, true, false}};
    struct merge_totals totals = put_looks(samples, 5);
    assert_int_equal(own_written[1], 302 * MB);
    assert_int_equal(own_written[2], 302 * MB);
    assert_int_equal(own_written[3], 312 * MB);
    assert_in_range(totals.heap_rss_peak_bytes, 10 * MB, 10.2 * MB);
    assert_false(merge_heap_is_unknown(&totals));
}

static void own_memory_that_moves_between_looks_is_no_heap(void **state) {
    (void)state;
    struct put_sample samples[] = {{12, 2, 10, 0, true, true, false},
                                   {412, 2, 0, 401, false, false, false},
                                   {12, 2, 10, 0, true, true, false}};
    struct merge_totals totals = put_looks(samples, 3);
    assert_in_range(totals.heap_rss_peak_bytes, 10 * MB, 10.2 * MB);
    assert_false(merge_heap_is_unknown(&totals));
    // The program has nothing mapped that this can be: it is the heap, or stacks.
    samples[1].mapped_mb = 1;
    totals = put_looks(samples, 3);
    assert_in_range(totals.heap_rss_high_bytes, 400 * MB, 412 * MB);
    assert_true(merge_heap_is_unknown(&totals));
}

static void blocks_from_before_may_lie_anywhere(void **state) {
    (void)state;
    const struct put_sample samples[] = {{112, 2, 10, 0, true, true, true},
                                         {112, 2, 10, 0, true, true, true}};
    struct merge_totals totals = put_looks(samples, 2);
    assert_int_equal(own_written[1], 2 * MB);
    assert_int_equal(totals.heap_rss_low_bytes, 10 * MB);
    assert_int_equal(totals.heap_rss_high_bytes, 110 * MB);
    assert_true(merge_heap_is_unknown(&totals));
}

// Of a damaged log: no sum of theirs may overflow.
static void samples_of_any_size_are_held(void **state) {
    (void)state;
    static struct merge_totals totals;
    struct sample_line *line = calloc(1, sizeof *line);
    totals = (struct merge_totals){0};
    line->totals = &totals;
    const struct ht_sample looks[] = {
        {.rss_anon_bytes = UINT64_C(1) << 63, .own_rss_bytes = 1, .own_fresh = true},
        {.time_ns = 1, .rss_anon_bytes = 5, .own_rss_bytes = 3, .own_fresh = true},
        {.time_ns = 2, .rss_anon_bytes = UINT64_C(1) << 63, .own_rss_bytes = 0, .own_fresh = true}};
    for (size_t i = 0; i < 3; i++)
        sample_line_put(line, &(struct line_sample){.sample = looks[i], .looked = i != 1});
    assert_int_equal(line->missed_bytes, INT64_MIN);
    for (size_t i = 1; i < 3; i++)
        sample_line_put(line, &(struct line_sample){.sample = looks[i], .looked = i != 1});
    sample_line_end(line);
    assert_int_equal(totals.rss_peak_bytes, UINT64_C(1) << 63);
    free(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moves_with_rss),
                                       cmocka_unit_test(moves_with_time),
                                       cmocka_unit_test(peaks_between_calls_are_own),
                                       cmocka_unit_test(where_a_free_may_be_under_way_a_peak_is_not_own),
                                       cmocka_unit_test(what_calls_cannot_explain_is_own),
                                       cmocka_unit_test(what_stays_in_the_heap_was_it_before),
                                       cmocka_unit_test(what_is_not_around_blocks_is_own),
                                       cmocka_unit_test(own_memory_that_moves_between_looks_is_no_heap),
                                       cmocka_unit_test(blocks_from_before_may_lie_anywhere),
                                       cmocka_unit_test(samples_of_any_size_are_held)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
