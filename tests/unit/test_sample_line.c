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

// Calls before each of the samples.
static uint64_t calls[5] = {0, 1, 2, 3, 4};

// Samples at 0, 10, 20, 90 and 100 ns; the first and the last measured own memory.
static void put(const uint64_t anon[5], uint64_t own_first, uint64_t own_last) {
    static const uint64_t time_ns[5] = {0, 10, 20, 90, 100};
    struct merge_totals totals = {0};
    struct sample_line *line = calloc(1, sizeof *line);
    void *nobody = &no_writer;  // only its being there counts
    line->totals = &totals;
    line->writer = nobody;
    written = 0;
    for (unsigned i = 0; i < 5; i++)
        sample_line_put(line, &(struct ht_sample){.time_ns = time_ns[i],
                                                  .event = calls[i],
                                                  .rss_anon_bytes = anon[i],
                                                  .own_rss_bytes = i == 4 ? own_last : own_first,
                                                  .own_fresh = i == 0 || i == 4});
    assert_int_equal(written, 5);
    assert_int_equal(own_written[0], own_first);
    assert_int_equal(own_written[4], own_last);
    free(line);
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
    calls[1] = 0;  // none since the first sample
    put((const uint64_t[]){1000, 1500, 1500, 900, 1100}, 500, 600);
    assert_int_equal(own_written[1], 1000);
    assert_int_equal(own_written[2], 600);
    calls[3] = 4;
    put((const uint64_t[]){1000, 1000, 1050, 900, 1100}, 500, 600);
    assert_int_equal(own_written[2], 550);
    assert_int_equal(own_written[3], 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moves_with_rss), cmocka_unit_test(moves_with_time),
                                       cmocka_unit_test(peaks_between_calls_are_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
