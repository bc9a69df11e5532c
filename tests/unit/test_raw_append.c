// SPDX-License-Identifier: Apache-2.0
// The raw log's records: what is appended is what is read, for all widths of all fields.
#include "unit_support.h"

#include <string.h>

#include "raw_append.h"
#include "raw_reader.h"

enum { ROOM = 1 << 20, RECORDS = 20000 };

struct expected {
    unsigned op;
    uint64_t stamp, address, size, count;
};

static void decodes_what_was_appended(void **state) {
    (void)state;
    uint64_t seed = 1, stamp = 1000;
    uint8_t *chunk = calloc(1, ROOM + 64);
    struct expected *expected = calloc(RECORDS, sizeof *expected);
    struct ht_raw_chunk header = {.bytes = ROOM, .base_stamp = stamp, .base_address = 0x7000};
    struct ht_cursor cursor = {chunk + sizeof header, stamp, 0x7000};
    unsigned records = 0;
    while (records < RECORDS && cursor.at < chunk + ROOM - HT_APPEND_ROOM_BYTES) {
        struct expected *e = &expected[records++];
        stamp += unit_random_width(&seed) >> (20 + unit_random(&seed) % 40);
        *e = (struct expected){.stamp = stamp, .count = 1};
        e->address = unit_random_width(&seed) | 32 | 1u << (unit_random(&seed) % 5);
        switch (unit_random(&seed) % 6) {
        case 0:
            e->op = HT_RAW_FREE;
            ht_append_bare(&cursor, e->op, stamp, e->address);
            break;
        case 1:
            e->op = HT_RAW_FREE_NULL;
            e->address = 0;
            ht_append_unaddressed(&cursor, e->op, stamp, 0);
            break;
        case 2:
            e->op = HT_RAW_QUERY;
            ht_append_bare(&cursor, e->op, stamp, e->address);
            break;
        case 3:
            e->op = HT_RAW_QUERY;
            e->stamp = stamp = cursor.last_stamp;
            e->address = cursor.last_address;
            assert_false(ht_append_same_query(&cursor, e->address + 8));
            assert_true(ht_append_same_query(&cursor, e->address));
            break;
        case 4:
            e->count = unit_random_width(&seed);
            ht_append_modifier(&cursor, HT_MODIFIER_COUNT, e->count);
            e->op = HT_RAW_CALLOC;
            e->size = unit_random_width(&seed);
            ht_append_call(&cursor, e->op, stamp, e->address, e->size);
            break;
        default:
            e->op = HT_RAW_MALLOC;
            e->size = unit_random_width(&seed);
            ht_append_call(&cursor, e->op, stamp, e->address, e->size);
        }
    }
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    ht_raw_decode_chunk(&decoder, &header, chunk);
    for (unsigned i = 0; i < records; i++) {
        assert_int_equal(ht_raw_decode(&decoder, &record), 1);
        assert_int_equal(record.op, expected[i].op);
        assert_int_equal(record.stamp, expected[i].stamp);
        assert_int_equal(record.address, expected[i].address);
        assert_int_equal(record.size, expected[i].size);
        assert_int_equal(record.count, expected[i].count);
    }
    assert_int_equal(ht_raw_decode(&decoder, &record), 0);
    assert_true(records > 5000);
    free(chunk);
    free(expected);
}

static void example_of_the_specification(void **state) {
    (void)state;
    uint8_t chunk[128] = {0};
    struct ht_cursor cursor = {chunk, 1000, 0x5010};
    ht_append_call(&cursor, HT_RAW_MALLOC, 1037, 0x5090, 100);
    static const uint8_t bytes[] = {0x22, 0x22, 0x25, 0x20, 0x64};
    assert_int_equal(cursor.at - chunk, sizeof bytes);
    assert_memory_equal(chunk, bytes, sizeof bytes);
}

static void operators_of_cxx_are_calls_with_their_function(void **state) {
    (void)state;
    uint8_t chunk[4096 + 64] = {0};
    struct ht_raw_chunk header = {.bytes = 4096, .base_stamp = 10, .base_address = 0x5000};
    struct ht_cursor cursor = {chunk + sizeof header, 10, 0x5000};
    ht_append_call(&cursor, HT_RAW_NEW, 11, 0x5010, 40);
    ht_append_call(&cursor, HT_RAW_DELETE_SIZED, 12, 0x5010, 40);
    ht_append_call(&cursor, HT_RAW_NEW, 13, 0x5020, 0);
    ht_append_bare(&cursor, HT_RAW_DELETE, 14, 0x5020);
    ht_append_modifier(&cursor, HT_MODIFIER_FAILED, HT_FAILED_NULL);
    ht_append_unaddressed(&cursor, HT_RAW_NEW, 15, 1 << 20);
    static const struct {
        uint8_t op, function;
        uint64_t address, size;
    } expected[] = {{HT_RAW_MALLOC, HT_NEW, 0x5010, 40},
                    {HT_RAW_FREE, HT_DELETE_SIZED, 0x5010, 40},
                    {HT_RAW_MALLOC, HT_NEW, 0x5020, 0},
                    {HT_RAW_FREE, HT_DELETE, 0x5020, 0},
                    {HT_RAW_MALLOC, HT_NEW, 0, 1 << 20}};
    // The quick decoder gives those without modifiers, the other one all.
    for (unsigned quick = 0; quick < 2; quick++) {
        struct ht_raw_decoder decoder;
        struct ht_raw_record record[5];
        ht_raw_decode_chunk(&decoder, &header, chunk);
        size_t count = quick ? ht_raw_decode_common(&decoder, decoder.end, record, 5) : 0;
        assert_int_equal(count, quick ? 4 : 0);
        for (; count < 5; count++) assert_int_equal(ht_raw_decode(&decoder, &record[count]), 1);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(record[i].op, expected[i].op);
            assert_int_equal(record[i].function, expected[i].function);
            assert_int_equal(ht_raw_function(&record[i]), expected[i].function);
            assert_int_equal(record[i].stamp, 11 + i);
            assert_int_equal(record[i].address, expected[i].address);
            assert_int_equal(record[i].size, expected[i].size);
            assert_int_equal(record[i].failed, i == 4 ? HT_FAILED_NULL : 0);
        }
    }
}

static void a_query_of_the_latest_block_is_a_head(void **state) {
    (void)state;
    uint8_t chunk[128] = {0};
    struct ht_cursor cursor = {chunk, 1000, 0x5010};
    assert_true(ht_append_same_query(&cursor, 0x5010));
    static const uint8_t bytes[] = {0x09, 0x00};
    assert_int_equal(cursor.at - chunk, sizeof bytes);
    assert_memory_equal(chunk, bytes, sizeof bytes);
}

static void a_call_without_its_modifiers_end_is_no_call(void **state) {
    (void)state;
    // Killed between a modifier and its call: the chunk ends there, without an error.
    uint8_t chunk[4096 + 64] = {0};
    struct ht_raw_chunk header = {.bytes = 4096};
    struct ht_cursor cursor = {chunk + sizeof header, 0, 0};
    ht_append_modifier(&cursor, HT_MODIFIER_COUNT, 3);
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    ht_raw_decode_chunk(&decoder, &header, chunk);
    assert_int_equal(ht_raw_decode(&decoder, &record), 0);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    static const uint8_t nonsense[][8] = {
        {0x0d, 0x11, 0x11},              // no such op
        {0x0d, 0x00},                    // nor this
        {0x0b, 0x01, 0x00},              // a delete of address 0
        {0x0f, 0x91, 0x01},              // no such modifier
        {0x01, 0x01, 0x00},              // a free of address 0
        {0x09, 0x00},                    // a query of the previous record's block, which there is not
        {0xff, 0xff, 0xff, 0xff, 0xff},  // a modifier with a time
        {0x0e, 0xff},                    // a long record longer than any
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        uint8_t chunk[4096 + 64] = {0};
        struct ht_raw_chunk header = {.bytes = 4096};
        memcpy(chunk + sizeof header, nonsense[i], sizeof nonsense[i]);
        struct ht_raw_decoder decoder;
        struct ht_raw_record record;
        ht_raw_decode_chunk(&decoder, &header, chunk);
        assert_int_equal(ht_raw_decode(&decoder, &record), -1);
    }
}

static void random_bytes_never_run_over(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (unsigned round = 0; round < 2000; round++) {
        size_t bytes = 64 + unit_random(&seed) % 200;
        uint8_t *chunk = calloc(1, bytes + 64);
        for (size_t i = 0; i < bytes; i++) chunk[i] = (uint8_t)unit_random(&seed);
        struct ht_raw_chunk header = {.bytes = bytes};
        struct ht_raw_decoder decoder;
        struct ht_raw_record record;
        ht_raw_decode_chunk(&decoder, &header, chunk);
        while (ht_raw_decode(&decoder, &record) > 0) assert_true(decoder.at <= chunk + bytes);
        free(chunk);
    }
}

static void long_records_keep_their_words(void **state) {
    (void)state;
    uint8_t chunk[4096 + 64] = {0};
    struct ht_raw_chunk header = {.bytes = 4096};
    struct ht_cursor cursor = {chunk + sizeof header, 5, 0};
    const uint64_t word[5] = {99, UINT64_MAX, 2, 3, 4};
    ht_append_long(&cursor, HT_LONG_SAMPLE, word, 5);
    ht_append_bare(&cursor, HT_RAW_FREE, 7, 0x1000);
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    ht_raw_decode_chunk(&decoder, &header, chunk);
    decoder.stamp = 5;
    assert_int_equal(ht_raw_decode(&decoder, &record), 1);
    assert_int_equal(record.op, HT_RAW_LONG);
    assert_int_equal(record.long_kind, HT_LONG_SAMPLE);
    assert_int_equal(record.stamp, 99);
    assert_memory_equal(record.word, word + 1, 4 * sizeof *word);
    assert_int_equal(ht_raw_decode(&decoder, &record), 1);
    assert_int_equal(record.stamp, 7);  // long records leave the calls' time alone
    assert_int_equal(record.address, 0x1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decodes_what_was_appended),
                                       cmocka_unit_test(example_of_the_specification),
                                       cmocka_unit_test(operators_of_cxx_are_calls_with_their_function),
                                       cmocka_unit_test(a_query_of_the_latest_block_is_a_head),
                                       cmocka_unit_test(a_call_without_its_modifiers_end_is_no_call),
                                       cmocka_unit_test(nonsense_is_refused),
                                       cmocka_unit_test(random_bytes_never_run_over),
                                       cmocka_unit_test(long_records_keep_their_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
