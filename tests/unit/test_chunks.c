// SPDX-License-Identifier: Apache-2.0
// The shim's chunks: when a stream gets the next one, and what a reader finds in one that was left by a jump
// in the midst of an append.
#include "unit_support.h"

#include <errno.h>
#include <string.h>

#include "chunks.h"
#include "freed_probe.h"
#include "log_file.h"
#include "memory_sample.h"
#include "raw_reader.h"
#include "seal.h"
#include "settings.h"

enum { FILE_BYTES = 1 << 20, PAGE = 4096, BLOCK = 0x10000 };

// What chunks.c asks of the rest of the shim.
struct epoch_page epoch_page = {.epoch = 1};
_Atomic bool recorder_sealed;
__thread struct thread_state self __attribute__((tls_model("initial-exec")));

bool recorder_may_call(void) { return true; }
bool seal_rules_filter_out_at_once(void) { return false; }
void recorder_has_called(void) {}
bool seal_begins_in_prepared_room(void) { return false; }
void seal_has_placed(void) {}
void log_end(struct recording *recording, enum ht_stop_reason reason, int error_number, enum epoch next) {
    (void)recording, (void)reason, (void)error_number, (void)next;
    fail_msg("the recording ended");
}
bool log_has_room_in_memory(struct recording *log, uint64_t end) {
    (void)log, (void)end;
    return true;
}
int log_make_real(struct recording *recording, uint64_t offset, uint64_t bytes) {
    (void)recording, (void)offset, (void)bytes;
    return 0;
}
int log_grow_after_exit(struct recording *recording, uint64_t offset, uint64_t bytes) {
    (void)recording, (void)offset, (void)bytes;
    return EFBIG;
}
void log_release_pages(struct ht_raw_chunk *chunk) { (void)chunk; }
void memory_sample(struct thread_state *t, uint64_t stamp, bool final) {
    (void)t, (void)stamp, (void) final;
    fail_msg("a sample was taken");
}

static _Alignas(4096) char file[FILE_BYTES];
static struct recording recording;
static struct thread_state thread;
static uint64_t stamp;

static int begin(void **state) {
    (void)state;
    memset(file, 0, sizeof file);
    recording = (struct recording){
        .header = (void *)file, .reserve_bytes = sizeof file, .real_bytes = sizeof file, .epoch = 1};
    recording.header->chunks_end = HT_RAW_HEADER_BYTES;
    thread = (struct thread_state){.epoch = 1, .recording = &recording, .sample_due_stamp = UINT64_MAX};
    stamp = 1000;
    settings.page_bytes = PAGE;
    freed_probe_measure_floor(recording.header);
    return !chunk_next(&thread);
}

static void put(uint64_t address, uint64_t size) {
    assert_true(room_for_record(&thread));
    ht_append_call(&thread.cursor, HT_RAW_MALLOC, stamp += 10, address, size);
    thread.calls++;
}

// The sizes of all calls in a chunk, which must end without a complaint.
static unsigned sizes_in(const struct ht_raw_chunk *chunk, uint64_t *size, unsigned room) {
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    unsigned count = 0;
    int more;
    ht_raw_decode_chunk(&decoder, chunk, (const uint8_t *)chunk);
    while ((more = ht_raw_decode(&decoder, &record)) > 0) {
        assert_true(count < room);
        assert_int_equal(record.address, BLOCK + record.size * 64);
        assert_int_equal(record.failed, 0);
        size[count++] = record.size;
    }
    assert_int_equal(more, 0);
    return count;
}

static uint64_t probes(void) {
    uint64_t all = 0;
    for (size_t i = 0; i < HT_RAW_FREED_PROBES; i++) all += recording.header->freed_probes[i];
    return all;
}

static void a_due_probe_is_no_reason_for_a_chunk(void **state) {
    (void)state;
    const struct ht_raw_chunk *first = thread.chunk;
    while (thread.cursor.at < chunk_append_end(&thread)) {
        put(BLOCK, 32);
        assert_ptr_equal(thread.chunk, first);
    }
    put(BLOCK, 32);
    assert_ptr_not_equal(thread.chunk, first);
    assert_in_range(first->used, first->bytes - HT_APPEND_ROOM_BYTES, first->bytes);
    assert_int_equal(probes(), 0);
}

static void only_frees_are_probed(void **state) {
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(room_for_free(&thread, file + 1));
        ht_append_bare(&thread.cursor, HT_RAW_FREE, stamp += 10, BLOCK);
    }
#ifdef __x86_64__  // elsewhere the cycle counter is too coarse
    assert_in_range(probes(), 2, 100);
#endif
}

// What an append has done when a handler jumps out of it.
static void nothing_yet(void) {}
static void modifiers(void) {
    ht_append_modifier(&thread.cursor, HT_MODIFIER_FAILED, HT_FAILED_NULL);
    ht_append_modifier(&thread.cursor, HT_MODIFIER_COUNT, UINT64_MAX);
}
static void steps(void) {
    modifiers();
    ht_time_step(&thread.cursor, stamp += 10);
    ht_address_step(&thread.cursor, 0x900000);
}
static void a_tail(void) {
    steps();
    memset(thread.cursor.at + 8, 0xff, 32);
}
static void a_modifier_not_passed(void) {
    uint8_t *at = thread.cursor.at;
    ht_append_modifier(&thread.cursor, HT_MODIFIER_COUNT, 3);
    thread.cursor.at = at;
}
static void a_call_not_passed(void) {
    uint8_t *at = thread.cursor.at;
    put(BLOCK + 7 * 64, 7);
    thread.cursor.at = at;
}
static void a_wide_call_not_passed(void) {
    uint8_t *at = thread.cursor.at;
    stamp += UINT64_C(1) << 60;
    uint64_t far = UINT64_C(1) << 50;
    put(BLOCK + far * 64, far);
    thread.cursor.at = at;
}
static void a_long_record_not_passed(void) {
    uint8_t *at = thread.cursor.at;
    uint64_t word[3] = {stamp, 1, 2};
    ht_append_long(&thread.cursor, HT_LONG_THREAD_END, word, 3);
    thread.cursor.at = at;
}

// Whatever was left there: the calls before and behind it are read as they were, and it takes a chunk of its
// own, although there is room and a probe may be due.
static void a_jump_begins_a_chunk(void **state) {
    (void)state;
    static void (*const left[])(void) = {
        nothing_yet,           modifiers, steps, a_tail, a_modifier_not_passed, a_call_not_passed,
        a_wide_call_not_passed};
    uint64_t size[8];
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        begin(NULL);
        const struct ht_raw_chunk *first = thread.chunk;
        put(BLOCK + 5 * 64, 5);
        left[i]();
        bool whole = left[i] == a_call_not_passed || left[i] == a_wide_call_not_passed;
        assert_true(chunk_next_after_jump(&thread));
        assert_ptr_not_equal(thread.chunk, first);
        put(BLOCK + 9 * 64, 9);
        put(BLOCK + 3 * 64, 3);
        assert_int_equal(sizes_in(first, size, 8), whole ? 2 : 1);
        assert_int_equal(size[0], 5);
        assert_int_equal(sizes_in(thread.chunk, size, 8), 2);
        assert_int_equal(size[0], 9);
        assert_int_equal(size[1], 3);
    }
}

static void a_long_record_is_passed_too(void **state) {
    (void)state;
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    const struct ht_raw_chunk *first = thread.chunk;
    a_long_record_not_passed();
    assert_true(chunk_next_after_jump(&thread));
    ht_raw_decode_chunk(&decoder, first, (const uint8_t *)first);
    assert_int_equal(ht_raw_decode(&decoder, &record), 1);
    assert_int_equal(record.long_kind, HT_LONG_THREAD_END);
    assert_int_equal(ht_raw_decode(&decoder, &record), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(a_due_probe_is_no_reason_for_a_chunk, begin),
                                       cmocka_unit_test_setup(only_frees_are_probed, begin),
                                       cmocka_unit_test_setup(a_jump_begins_a_chunk, begin),
                                       cmocka_unit_test_setup(a_long_record_is_passed_too, begin)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
