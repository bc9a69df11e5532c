// SPDX-License-Identifier: Apache-2.0
// Streams of calls that a signal handler made while its thread was inside another call: they belong to the
// same thread.
#include "unit_support.h"

#include <string.h>

#include "converted_log.h"
#include "raw_log_builder.h"

// Stream 0 is its thread's own, stream 2 nested in it, stream 3 nested in that; stream 1 is another thread's.
static const uint32_t outer_of[] = {0, 0, 1, 3};

static const char *write_log(char path[256], const uint32_t *outer, const struct builder_line *line,
                             size_t lines) {
    struct raw_log_builder builder;
    builder_open(&builder, unit_path(path, "nested.mraw"));
    for (unsigned i = 0; i < 4; i++) builder.stream[i].outer = outer[i];
    builder_put(&builder, line, lines);
    builder_close(&builder);
    return path;
}

static void convert(const uint32_t *outer, const struct builder_line *line, size_t lines,
                    struct converted_log *converted) {
    char path[256];
    struct ht_error error = {0};
    if (converted_open(converted, write_log(path, outer, line, lines), NULL, &error))
        fail_msg("%s", error.message);
    unlink(path);
}

static void they_share_their_threads_number(void **state) {
    (void)state;
    static const struct builder_line lines[] = {
        {0, HT_RAW_MALLOC, 10, 0x100, 40}, {1, HT_RAW_MALLOC, 15, 0x200, 41},
        {2, HT_RAW_MALLOC, 20, 0x300, 42}, {3, HT_RAW_MALLOC, 22, 0x400, 43},
        {3, HT_RAW_FREE, 24, 0x400, 0},    {2, HT_RAW_FREE, 30, 0x300, 0},
        {0, HT_RAW_FREE, 40, 0x100, 0},
    };
    static const uint32_t thread[] = {0, 1, 0, 0, 0, 0, 0};
    struct converted_log *converted = malloc(sizeof *converted);
    convert(outer_of, lines, 7, converted);
    assert_int_equal(converted->events, 7);
    for (size_t i = 0; i < 7; i++) assert_int_equal(converted->event[i].thread, thread[i]);
    assert_int_equal(converted->totals.threads, 2);
    assert_int_equal(converted->facts.threads[0].calls, 6);
    assert_int_equal(converted->facts.threads[0].tid, 100);
    assert_int_equal(converted->totals.anomalies, 0);
    converted_close(converted);
    free(converted);
}

static void a_thread_may_begin_with_a_nested_call(void **state) {
    (void)state;
    // The handler interrupted the thread's first call, which is logged later.
    static const struct builder_line lines[] = {
        {2, HT_RAW_MALLOC, 10, 0x300, 1}, {2, HT_RAW_FREE, 11, 0x300, 0}, {0, HT_RAW_MALLOC, 12, 0x100, 2}};
    struct converted_log *converted = malloc(sizeof *converted);
    convert(outer_of, lines, 3, converted);
    assert_int_equal(converted->totals.threads, 1);
    for (size_t i = 0; i < 3; i++) assert_int_equal(converted->event[i].thread, 0);
    converted_close(converted);
    free(converted);
}

static void calls_nested_in_a_realloc_come_between_its_halves(void **state) {
    (void)state;
    // The old block's address is free once the realloc has moved the block, and the handler gets it.
    static const struct builder_line lines[] = {
        {0, HT_RAW_MALLOC, 10, 0x100, 40},        {0, HT_RAW_REALLOC_BEGIN, 20, 0x100, 80},
        {2, HT_RAW_REALLOC_BEGIN, 25, 0x900, 60}, {2, HT_RAW_REALLOC_END, 26, 0x100, 0},
        {2, HT_RAW_FREE, 27, 0x100, 0},           {0, HT_RAW_REALLOC_END, 30, 0x500, 0},
        {0, HT_RAW_FREE, 40, 0x500, 0},           {1, HT_RAW_MALLOC, 5, 0x900, 50},
    };
    static const uint8_t functions[] = {HT_MALLOC, HT_MALLOC, HT_REALLOC, HT_FREE, HT_REALLOC, HT_FREE};
    struct converted_log *converted = malloc(sizeof *converted);
    convert(outer_of, lines, 8, converted);
    assert_int_equal(converted->events, 6);
    for (size_t i = 0; i < 6; i++) assert_int_equal(ht_op_function(converted->event[i].op), functions[i]);
    assert_int_equal(converted->event[2].slot, converted->event[0].slot);
    assert_int_equal(converted->event[4].slot, converted->event[1].slot);
    assert_int_equal(converted->totals.anomalies, 0);
    assert_int_equal(converted->totals.foreign_frees, 0);
    assert_int_equal(converted->totals.unfinished, 0);
    assert_int_equal(converted->totals.end_live_objects, 0);
    converted_close(converted);
    free(converted);
}

static void they_are_no_threads_of_their_own_when_counted(void **state) {
    (void)state;
    static const struct builder_line lines[] = {{0, HT_RAW_MALLOC, 10, 0x100, 40},
                                                {1, HT_RAW_MALLOC, 15, 0x200, 41},
                                                {2, HT_RAW_MALLOC, 20, 0x300, 42},
                                                {3, HT_RAW_MALLOC, 22, 0x400, 43}};
    char path[256];
    struct ht_raw_log log;
    struct ht_error error = {0};
    uint64_t calls;
    uint32_t threads;
    assert_int_equal(ht_raw_open(&log, write_log(path, outer_of, lines, 4), &error), 0);
    assert_int_equal(ht_raw_count_calls(&log, &calls, &threads, &error), 0);
    assert_int_equal(calls, 4);
    assert_int_equal(threads, 2);
    ht_raw_close(&log);
    unlink(path);
}

static void a_chunk_whose_nesting_cannot_be_is_damaged(void **state) {
    (void)state;
    static const struct builder_line lines[] = {{0, HT_RAW_MALLOC, 10, 0x100, 40},
                                                {1, HT_RAW_MALLOC, 15, 0x200, 41}};
    // In itself, in each other, in a stream that does not exist.
    static const uint32_t wrong[][4] = {
        {1, 0, 0, 0}, {0, 2, 0, 0}, {2, 1, 0, 0}, {0, 9, 0, 0}, {0, UINT32_MAX, 0, 0}};
    struct converted_log *converted = malloc(sizeof *converted);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char path[256];
        struct ht_error error = {0};
        assert_int_equal(converted_open(converted, write_log(path, wrong[i], lines, 2), NULL, &error), 0);
        const struct ht_raw_damage *damage = &converted->totals.damage;
        assert_int_equal(converted->totals.events, 1);
        assert_int_equal(damage->lost_calls, 1);
        assert_non_null(strstr(damage->first, "nested in an earlier one"));
        converted_close(converted);
        unlink(path);
    }
    free(converted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_share_their_threads_number),
        cmocka_unit_test(a_thread_may_begin_with_a_nested_call),
        cmocka_unit_test(calls_nested_in_a_realloc_come_between_its_halves),
        cmocka_unit_test(they_are_no_threads_of_their_own_when_counted),
        cmocka_unit_test(a_chunk_whose_nesting_cannot_be_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
