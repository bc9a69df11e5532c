// SPDX-License-Identifier: Apache-2.0
// The hash of a struct is that of its bytes, whatever the compiler knows of the stores before it.
#include "unit_support.h"

#include <string.h>

#include "checksum.h"
#include "trace_layout.h"

enum { ROUNDS = 100 };

// The bytes as they lie in memory: code that hashes the copy knows nothing of their type.
static uint64_t hash_of_copy(const void *from, size_t bytes) {
    uint8_t copy[64];
    assert_true(bytes <= sizeof copy);
    __asm__ volatile("" : : "r"(from) : "memory");
    memcpy(copy, from, bytes);
    __asm__ volatile("" : : "r"(copy) : "memory");
    return XXH64(copy, bytes, 0);
}

static void header_filled_in_place(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < ROUNDS; i++) {
        struct ht_trace_header header = {.version = HT_TRACE_VERSION,
                                         .min_reader = HT_TRACE_MIN_READER,
                                         .time_unit_ns = (uint32_t)unit_random(&seed),
                                         .block_events_max = HT_SECTION_ROWS_MAX};
        memcpy(header.magic, HT_TRACE_MAGIC, sizeof header.magic);
        header.checksum = XXH64(&header, offsetof(struct ht_trace_header, checksum), 0);
        assert_int_equal(header.checksum, hash_of_copy(&header, offsetof(struct ht_trace_header, checksum)));
    }
}

static void section_hashed_in_parts(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (int i = 0; i < ROUNDS; i++) {
        struct ht_column_entry entry = {.id = HT_COLUMN_TOKEN, .values = (uint32_t)unit_random(&seed)};
        struct ht_section_header header = {.magic = HT_SECTION_MAGIC,
                                           .kind = HT_SECTION_EVENTS,
                                           .columns = 1,
                                           .rows = (uint32_t)unit_random(&seed),
                                           .payload_bytes = sizeof entry,
                                           .first_event = unit_random(&seed)};
        XXH64_state_t hash;
        XXH64_reset(&hash, 0);
        XXH64_update(&hash, &header, offsetof(struct ht_section_header, checksum));
        XXH64_update(&hash, &entry, sizeof entry);
        header.checksum = XXH64_digest(&hash);

        uint8_t together[64];
        memcpy(together, &header, offsetof(struct ht_section_header, checksum));
        memcpy(together + offsetof(struct ht_section_header, checksum), &entry, sizeof entry);
        assert_int_equal(header.checksum,
                         hash_of_copy(together, offsetof(struct ht_section_header, checksum) + sizeof entry));
    }
}

static void footer_filled_in_place(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < ROUNDS; i++) {
        struct ht_trace_footer footer = {.index_offset = unit_random(&seed),
                                         .file_bytes = unit_random(&seed)};
        memcpy(footer.magic, HT_TRACE_END_MAGIC, sizeof footer.magic);
        footer.checksum = XXH64(&footer, offsetof(struct ht_trace_footer, checksum), 0);
        assert_int_equal(footer.checksum, hash_of_copy(&footer, offsetof(struct ht_trace_footer, checksum)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_filled_in_place),
        cmocka_unit_test(section_hashed_in_parts),
        cmocka_unit_test(footer_filled_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
