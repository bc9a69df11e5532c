// SPDX-License-Identifier: Apache-2.0
// What the writer of an accesses file wrote, the reader reads; and whatever the bytes are, it ends.
#include "unit_support.h"

#include <string.h>

#include "access_reader.h"
#include "access_writer.h"
#include "bytes_source.h"

enum { RECORDS = 200000, BYTES_MAX = 8 << 20 };

// The writer takes no argument for its sink.
static uint8_t *written;
static size_t written_bytes;

static void take(const uint8_t *bytes, size_t count) {
    assert_true(written_bytes + count <= BYTES_MAX);
    memcpy(written + written_bytes, bytes, count);
    written_bytes += count;
}

struct record {
    enum ht_access_kind kind;
    uint64_t line, granule;
    uint32_t slot;
    struct ht_recorded_call call;
};

static struct ht_recorded_call some_call(uint64_t *seed) {
    struct ht_recorded_call call = {.call = unit_random(seed) % HT_ACCESS_CALLS,
                                    .instructions = unit_random(seed) >> unit_random(seed) % 64,
                                    .slot = (uint32_t)(unit_random(seed) % 40)};
    if (call.call == HT_ACCESS_FREE_NULL) call.slot = 0;
    else if (call.call != HT_ACCESS_FREE) call.size = unit_random(seed) >> unit_random(seed) % 64;
    if (call.call == HT_ACCESS_CALLOC || call.call == HT_ACCESS_ALIGNED) call.count = unit_random(seed);
    if (call.call == HT_ACCESS_REALLOC) call.from_null = unit_random(seed) % 2;
    return call;
}

static struct record some_record(uint64_t *seed) {
    uint64_t kind = unit_random(seed) % 100;
    struct record record = {.kind = kind < 40   ? HT_ACCESS_BLOCK
                                    : kind < 65 ? HT_ACCESS_LINE
                                    : kind < 97 ? HT_ACCESS_CODE
                                                : HT_ACCESS_CALL};
    bool far = unit_random(seed) % 50 == 0;
    switch (record.kind) {
    case HT_ACCESS_BLOCK:
        record.slot = (uint32_t)(unit_random(seed) % (far ? UINT32_MAX - 1 : 24));
        record.granule = unit_random(seed) % (far ? UINT64_MAX : 12);
        break;
    case HT_ACCESS_LINE: record.line = unit_random(seed) % (far ? UINT64_C(1) << 41 : 50 * 64); break;
    case HT_ACCESS_CODE: record.line = unit_random(seed) % (far ? UINT64_C(1) << 41 : 6); break;
    default: record.call = some_call(seed); break;
    }
    return record;
}

static void write_record(struct ht_access_writer *writer, const struct record *record) {
    switch (record->kind) {
    case HT_ACCESS_BLOCK: ht_write_block_access(writer, record->slot, record->granule); break;
    case HT_ACCESS_LINE: ht_write_line_access(writer, record->line); break;
    case HT_ACCESS_CODE: ht_write_code_line(writer, record->line); break;
    default: ht_write_call(writer, &record->call); break;
    }
}

static void check_record(enum ht_access_kind kind, const struct ht_access *access,
                         const struct record *record) {
    assert_int_equal(kind, record->kind);
    if (kind == HT_ACCESS_BLOCK)
        assert_true(access->slot == record->slot && access->granule == record->granule);
    if (kind == HT_ACCESS_LINE || kind == HT_ACCESS_CODE) assert_int_equal(access->line, record->line);
    if (kind != HT_ACCESS_CALL) return;
    assert_int_equal(access->call.call, record->call.call);
    assert_int_equal(access->call.instructions, record->call.instructions);
    assert_int_equal(access->call.slot, record->call.slot);
    assert_int_equal(access->call.size, record->call.size);
    assert_int_equal(access->call.count, record->call.count);
    assert_int_equal(access->call.from_null, record->call.from_null);
    assert_int_equal(access->call.thread, 3);
}

static struct ht_access_writer *new_writer(void) {
    struct ht_access_writer *writer = calloc(1, sizeof *writer);
    writer->write = take;
    written_bytes = 0;
    return writer;
}

static struct ht_access_reader *new_reader(struct bytes_source *source) {
    struct ht_access_reader *reader = calloc(1, sizeof *reader);
    reader->sampled = true;
    reader->read = bytes_source_give;
    reader->source = source;
    return reader;
}

static void what_is_written_is_read(void **state) {
    (void)state;
    uint64_t seed = 7;
    struct record *record = calloc(RECORDS, sizeof *record);
    struct ht_access_writer *writer = new_writer();
    struct ht_access access = {0};
    ht_write_thread(writer, 3);
    for (size_t i = 0; i < RECORDS; i++) {
        record[i] = some_record(&seed);
        write_record(writer, &record[i]);
    }
    ht_write_end(writer, 123, UINT64_MAX, 7);
    struct bytes_source source = {written, written_bytes, 1000};
    struct ht_access_reader *reader = new_reader(&source);
    for (size_t i = 0; i < RECORDS; i++) check_record(ht_read_access(reader, &access), &access, &record[i]);
    assert_int_equal(ht_read_access(reader, &access), HT_ACCESS_END);
    assert_int_equal(access.instructions, 123);
    assert_true(access.accesses == UINT64_MAX);
    assert_int_equal(access.operators, 7);
    free(reader);
    free(writer);
    free(record);
}

// Reads to the end or the first that is wrong.
static enum ht_access_kind last_of(const uint8_t *bytes, size_t count) {
    struct bytes_source source = {bytes, count, SIZE_MAX};
    struct ht_access_reader *reader = new_reader(&source);
    struct ht_access access = {0};
    enum ht_access_kind kind;
    do kind = ht_read_access(reader, &access);
    while (kind < HT_ACCESS_END);
    assert_true(kind != HT_ACCESS_DAMAGED || access.expected);
    assert_true(access.offset <= count);
    free(reader);
    return kind;
}

static void a_file_that_is_cut_anywhere_is_cut(void **state) {
    (void)state;
    uint64_t seed = 11;
    struct ht_access_writer *writer = new_writer();
    for (size_t i = 0; i < 300; i++) {
        struct record record = some_record(&seed);
        write_record(writer, &record);
    }
    ht_write_end(writer, 1, 1000, 0);
    assert_int_equal(last_of(written, written_bytes), HT_ACCESS_END);
    for (size_t count = 0; count < written_bytes; count++)
        assert_int_equal(last_of(written, count), HT_ACCESS_CUT);
    free(writer);
}

// The writer's tokens, up to an end; then what the reader finds last.
static enum ht_access_kind with_bursts(bool sampled, const char *tokens) {
    struct ht_access_writer *writer = new_writer();
    for (; *tokens; tokens++) {
        if (*tokens == 'b') ht_write_burst(writer);
        if (*tokens == 'e') ht_write_burst_end(writer, 300);
        if (*tokens == 'l') ht_write_line_access(writer, 70);
    }
    ht_write_end(writer, 1, 2, 3);
    struct bytes_source source = {written, written_bytes, SIZE_MAX};
    struct ht_access_reader *reader = new_reader(&source);
    reader->sampled = sampled;
    struct ht_access access = {0};
    enum ht_access_kind kind;
    do {
        kind = ht_read_access(reader, &access);
        if (kind == HT_ACCESS_BURST_END) assert_int_equal(access.accesses, 300);
    } while (kind < HT_ACCESS_END);
    free(reader);
    free(writer);
    return kind;
}

static void bursts_begin_and_end_in_turn(void **state) {
    (void)state;
    assert_int_equal(with_bursts(true, "lblelbel"), HT_ACCESS_END);
    assert_int_equal(with_bursts(false, "ll"), HT_ACCESS_END);
    assert_int_equal(with_bursts(true, "bb"), HT_ACCESS_DAMAGED);
    assert_int_equal(with_bursts(true, "le"), HT_ACCESS_DAMAGED);
    assert_int_equal(with_bursts(true, "bel"
                                       "b"),
                     HT_ACCESS_DAMAGED);                              // the file ends in one
    assert_int_equal(with_bursts(false, "lble"), HT_ACCESS_DAMAGED);  // and a whole file has none
}

static void any_bytes_come_to_an_end(void **state) {
    (void)state;
    uint64_t seed = 13;
    for (unsigned round = 0; round < 2000; round++) {
        size_t count = unit_random(&seed) % 400;
        for (size_t i = 0; i < count; i++) written[i] = (uint8_t)unit_random(&seed);
        last_of(written, count);
    }
    assert_int_equal(last_of((const uint8_t *)"\x00", 1), HT_ACCESS_DAMAGED);      // no block is known yet
    assert_int_equal(last_of((const uint8_t *)"\xa5\x01", 2), HT_ACCESS_DAMAGED);  // nor a page
    assert_int_equal(last_of((const uint8_t *)"\xff", 1), HT_ACCESS_DAMAGED);      // no such token
    assert_int_equal(last_of((const uint8_t *)"\xcf\x00\x00", 3), HT_ACCESS_DAMAGED);  // nor such a call
}

static void a_place_is_new_again_after_thirty_two_others(void **state) {
    (void)state;
    struct ht_access_writer *writer = new_writer();
    assert_true(ht_access_is_new(writer, 99));
    for (uint64_t i = 0; i < 31; i++) assert_true(ht_access_is_new(writer, 1000 + i));
    assert_false(ht_access_is_new(writer, 99));
    assert_true(ht_access_is_new(writer, 1031));
    assert_true(ht_access_is_new(writer, 99));
    ht_access_forget_recent(writer);
    assert_true(ht_access_is_new(writer, 99));
    free(writer);
}

static void a_line_is_new_again_after_thirty_two_tokens_of_any_kind(void **state) {
    (void)state;
    struct ht_access_writer *writer = new_writer();
    assert_true(ht_access_line_is_new(writer, 99));
    ht_write_line_access(writer, 99);
    for (uint32_t i = 0; i < 15; i++) {
        ht_write_block_access(writer, i, 0);
        ht_write_code_line(writer, i);
    }
    assert_false(ht_access_line_is_new(writer, 99));
    ht_write_block_access(writer, 3, 1);
    ht_write_code_line(writer, 3);
    assert_true(ht_access_line_is_new(writer, 99));
    ht_write_line_access(writer, 99);
    ht_access_forget_recent(writer);
    assert_true(ht_access_line_is_new(writer, 99));
    free(writer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_file_that_is_cut_anywhere_is_cut),
        cmocka_unit_test(bursts_begin_and_end_in_turn),
        cmocka_unit_test(any_bytes_come_to_an_end),
        cmocka_unit_test(a_place_is_new_again_after_thirty_two_others),
        cmocka_unit_test(a_line_is_new_again_after_thirty_two_tokens_of_any_kind),
    };
    written = malloc(BYTES_MAX);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
