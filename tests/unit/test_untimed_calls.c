// SPDX-License-Identifier: Apache-2.0
// Calls without a time, of a program with one thread: where they go between two stamps, beside a pause, at the
// end of a log, and beside the stream of a signal handler or of a second thread.
#include "unit_support.h"

#include <string.h>

#include "converted_log.h"
#include "raw_log_builder.h"
#include "raw_reader.h"

enum { TICK_NS = 4000000, UNTIMED = 0, CALLS_MAX = 64 };

static void open_log(struct raw_log_builder *builder, char path[256]) {
    builder_open(builder, unit_path(path, "untimed.mraw"));
    builder->header.features = HT_RAW_FEATURE_UNTIMED;
    builder->header.tick_ns = TICK_NS;
}

// Ends the log, and converts it.
static struct converted_log *convert(struct raw_log_builder *builder, const char *path) {
    struct converted_log *converted = malloc(sizeof *converted);
    struct ht_error error = {0};
    assert_non_null(converted);
    builder_close(builder);
    if (converted_open(converted, path, NULL, &error)) fail_msg("%s", error.message);
    unlink(path);
    return converted;
}

static void drop(struct converted_log *converted) {
    converted_close(converted);
    free(converted);
}

// Of one stream: an allocation for each stamp, each of another block.
static struct converted_log *convert_stamps(const uint64_t *stamp, size_t calls) {
    char path[256];
    struct raw_log_builder builder;
    open_log(&builder, path);
    for (size_t i = 0; i < calls; i++)
        builder_put(&builder, &(struct builder_line){0, HT_RAW_MALLOC, stamp[i], 0x1000 * (i + 1), 8}, 1);
    return convert(&builder, path);
}

static void check_times(const uint64_t *stamp, const uint64_t *expected, size_t calls) {
    struct converted_log *converted = convert_stamps(stamp, calls);
    assert_int_equal(converted->events, calls);
    for (size_t i = 0; i < calls; i++) assert_int_equal(converted->event[i].time_ns, expected[i]);
    drop(converted);
}

static void they_lie_evenly_between_two_stamps(void **state) {
    (void)state;
    static const uint64_t stamp[] = {1000, UNTIMED, UNTIMED, UNTIMED, 5000, 5010, UNTIMED, 5015},
                          expected[] = {1000, 2000, 3000, 4000, 5000, 5010, 5012, 5015};
    check_times(stamp, expected, 8);
}

static void they_lie_before_a_pause(void **state) {
    (void)state;
    static const uint64_t hour = UINT64_C(3600000000000);
    const uint64_t stamp[] = {1000, 1010, UNTIMED, UNTIMED, hour, hour + 30, UNTIMED, 2 * hour},
                   expected[] = {1000, 1010, 1020, 1030, hour, hour + 30, hour + 60, 2 * hour};
    check_times(stamp, expected, 8);
    // The pace is that of the calls before, even where these had no times themselves.
    const uint64_t later[] = {1000, UNTIMED, UNTIMED, 1060, UNTIMED, hour},
                   seen[] = {1000, 1020, 1040, 1060, 1080, hour};
    check_times(later, seen, 6);
}

static void a_pace_lasts_for_a_tick_at_most(void **state) {
    (void)state;
    static const uint64_t hour = UINT64_C(3600000000000);
    const uint64_t stamp[] = {1000, 1000 + hour, UNTIMED, UNTIMED, UNTIMED, 3 * hour},
                   expected[] = {1000,
                                 1000 + hour,
                                 1000 + hour + TICK_NS / 4,
                                 1000 + hour + TICK_NS / 2,
                                 1000 + hour + TICK_NS / 4 * 3,
                                 3 * hour};
    check_times(stamp, expected, 6);
}

static void the_last_of_a_log_go_on_as_fast_as_before(void **state) {
    (void)state;
    static const uint64_t stamp[] = {1000, 1010, UNTIMED, UNTIMED}, expected[] = {1000, 1010, 1020, 1030};
    check_times(stamp, expected, 4);
}

static void a_sample_is_a_stamp(void **state) {
    (void)state;
    char path[256];
    struct raw_log_builder builder;
    open_log(&builder, path);
    static const struct builder_line lines[] = {{0, HT_RAW_MALLOC, 1000, 0x1000, 8},
                                                {0, HT_RAW_MALLOC, UNTIMED, 0x2000, 8},
                                                {0, HT_RAW_LONG, 2000, 0, HT_LONG_FORK},
                                                {0, HT_RAW_MALLOC, UNTIMED, 0x3000, 8},
                                                {0, HT_RAW_MALLOC, 4000, 0x4000, 8}};
    static const uint64_t expected[] = {1000, 1500, 3000, 4000};
    builder_put(&builder, lines, 5);
    struct converted_log *converted = convert(&builder, path);
    assert_int_equal(converted->events, 4);
    for (size_t i = 0; i < 4; i++) assert_int_equal(converted->event[i].time_ns, expected[i]);
    drop(converted);
}

// A query without a time has that of the call before it, which may have none either.
static void queries_lie_at_the_call_before(void **state) {
    (void)state;
    char path[256];
    struct raw_log_builder builder;
    open_log(&builder, path);
    builder_put(&builder, &(struct builder_line){0, HT_RAW_MALLOC, 1000, 0x1000, 8}, 1);
    assert_true(ht_append_same_query(builder_cursor(&builder, 0), 0x1000));
    builder_put(&builder, &(struct builder_line){0, HT_RAW_MALLOC, UNTIMED, 0x2000, 8}, 1);
    assert_true(ht_append_same_query(builder_cursor(&builder, 0), 0x2000));
    builder_put(&builder, &(struct builder_line){0, HT_RAW_MALLOC, 3000, 0x3000, 8}, 1);
    builder.header.features |= HT_RAW_FEATURE_QUERIES;
    struct converted_log *converted = convert(&builder, path);
    static const uint64_t expected[] = {1000, 1000, 2000, 2000, 3000};
    assert_int_equal(converted->events, 5);
    for (size_t i = 0; i < 5; i++) assert_int_equal(converted->event[i].time_ns, expected[i]);
    drop(converted);
}

// The calls before a second stream were made before it, however long the first stream was silent afterwards: each of
// the second's calls takes or frees a block of theirs.
static void they_come_before_a_second_stream(void **state) {
    (void)state;
    static const uint32_t outer_of[] = {1, 0};  // a signal handler's stream, and another thread's
    for (unsigned i = 0; i < 2; i++) {
        char path[256];
        struct raw_log_builder builder;
        open_log(&builder, path);
        builder.stream[1].outer = outer_of[i];
        builder.stream[1].cursor.last_stamp = 2000;
        static const struct builder_line lines[] = {
            {0, HT_RAW_MALLOC, 1000, 0x1000, 8},     {0, HT_RAW_MALLOC, 1010, 0x2000, 8},
            {0, HT_RAW_MALLOC, UNTIMED, 0x3000, 8},  {0, HT_RAW_FREE, UNTIMED, 0x1000, 0},
            {1, HT_RAW_MALLOC, 2000, 0x1000, 16},    {1, HT_RAW_FREE, 2001, 0x3000, 0},
            {0, HT_RAW_FREE, 3000000000, 0x2000, 0}, {1, HT_RAW_FREE, 2002, 0x1000, 0},
        };
        builder_put(&builder, lines, 8);
        struct converted_log *converted = convert(&builder, path);
        static const uint64_t expected[] = {1000, 1010, 1340, 1670, 2000, 2001, 2002, 3000000000};
        assert_int_equal(converted->events, 8);
        for (size_t j = 0; j < 8; j++) assert_int_equal(converted->event[j].time_ns, expected[j]);
        assert_int_equal(converted->totals.repairs, 0);
        assert_int_equal(converted->totals.anomalies, 0);
        assert_int_equal(converted->totals.foreign_frees, 0);
        assert_int_equal(converted->totals.end_live_objects, 0);
        drop(converted);
    }
}

// At the end of a chunk they lie before the next one's base stamp. Two chunks are filled with them.
static void a_chunk_begins_with_a_stamp(void **state) {
    (void)state;
    enum { EVENTS = 4000, STEP_NS = 100 };
    char path[256];
    struct raw_log_builder builder;
    open_log(&builder, path);
    struct builder_stream *stream = &builder.stream[0];
    uint64_t now = 0;
    for (unsigned i = 0; i < EVENTS; i++) {
        now += STEP_NS;
        uint32_t chunks = stream->index;
        uint64_t before = stream->cursor.last_stamp;
        stream->cursor.last_stamp = now;  // if this call begins a chunk
        builder_cursor(&builder, 0);
        bool begun = stream->index > chunks;
        if (!begun) stream->cursor.last_stamp = before;
        bool untimed = i % 200 || begun;
        const struct builder_line line = {0, i % 2 ? HT_RAW_FREE : HT_RAW_MALLOC, untimed ? UNTIMED : now,
                                          0x100000 + 0x40 * (uint64_t)(i / 2 % 7), 8};
        builder_put(&builder, &line, 1);
    }
    assert_true(stream->index >= 2);
    struct converted_log *converted = convert(&builder, path);
    assert_int_equal(converted->events, EVENTS);
    // A chunk's first call comes after its base stamp, so those there are up to a step off.
    for (size_t i = 0; i < EVENTS; i++)
        assert_in_range(converted->event[i].time_ns + STEP_NS, STEP_NS * (i + 1), STEP_NS * (i + 3));
    drop(converted);
}

// Record by record or in batches, from any place on: the same times, as far as the stamp ahead can be seen.
static void batches_are_like_single_records(void **state) {
    (void)state;
    enum { ROOM = 1 << 16, RECORDS = 6000 };
    uint8_t *chunk = calloc(1, ROOM + 64);
    struct ht_raw_record *one = calloc(RECORDS + 1, sizeof *one), *batch = calloc(RECORDS, sizeof *batch);
    struct ht_raw_chunk header = {.bytes = ROOM, .base_stamp = 500};
    struct ht_cursor cursor = {chunk + sizeof header, 500, 0};
    uint64_t seed = 3, stamp = 500;
    for (unsigned i = 0; i < RECORDS; i++) {
        uint64_t kind = unit_random(&seed), address = 0x1000 + 8 * (kind >> 8 & 0xff);
        stamp += kind % 4001 == 0 ? 10 * TICK_NS : kind >> 16 & 63;
        bool timed = kind % 64 == 0;
        if (kind % 97 == 0) ht_append_long(&cursor, HT_LONG_EXIT, &stamp, 1);
        else if (kind % 89 == 0 && cursor.last_address) ht_append_same_query(&cursor, cursor.last_address);
        else if (kind % 2) ht_append_call(&cursor, HT_RAW_MALLOC, timed ? stamp : UNTIMED, address, 24);
        else ht_append_bare(&cursor, HT_RAW_FREE, timed ? stamp : UNTIMED, address);
    }
    struct ht_raw_decoder single, batched;
    ht_raw_decode_chunk(&single, &header, chunk);
    single.tick_stamps = TICK_NS;
    batched = single;
    unsigned records = 0;
    while (ht_raw_decode(&single, &one[records]) > 0) records++;
    assert_int_equal(records, RECORDS);
    uint64_t last = 0;
    for (unsigned i = 0; i < records;) {
        size_t common = ht_raw_decode_common(&batched, batched.end, &batch[i], 1 + i % 32);
        if (!common) assert_int_equal(ht_raw_decode(&batched, &batch[i]), 1);
        for (size_t end = i + (common ? common : 1); i < end && i < records; i++) {
            assert_int_equal(batch[i].stamp, one[i].stamp);
            assert_int_equal(batch[i].address, one[i].address);
            assert_true(one[i].stamp >= last);
            last = one[i].stamp;
        }
    }
    free(chunk);
    free(one);
    free(batch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_lie_evenly_between_two_stamps),
        cmocka_unit_test(they_lie_before_a_pause),
        cmocka_unit_test(a_pace_lasts_for_a_tick_at_most),
        cmocka_unit_test(the_last_of_a_log_go_on_as_fast_as_before),
        cmocka_unit_test(a_sample_is_a_stamp),
        cmocka_unit_test(queries_lie_at_the_call_before),
        cmocka_unit_test(they_come_before_a_second_stream),
        cmocka_unit_test(a_chunk_begins_with_a_stamp),
        cmocka_unit_test(batches_are_like_single_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
