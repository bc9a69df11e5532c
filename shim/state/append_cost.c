// SPDX-License-Identifier: Apache-2.0
// What recording costs, measured where it is paid: in the recorded process. A short run of appends into a
// scratch chunk, so the figure is that of a warm cache: a floor.
#include "append_cost.h"

#include "clock.h"
#include "raw_append.h"
#include "sparse_stamps.h"

enum { CALLS = 128, ROUNDS = 4 };

static uint64_t one_round(void) {
    uint8_t chunk[CALLS * 16 + HT_APPEND_ROOM_BYTES];
    struct ht_cursor cursor = {.at = chunk, .last_stamp = stamp_now()};
    uint64_t start = clock_counter();
    for (unsigned call = 0; call < CALLS / 2; call++) {
        uint64_t block = 0x10000 + 2654435761u * (uint64_t)call % 1048576;
        ht_append_call(&cursor, HT_RAW_MALLOC, stamp_if_due(), block, 16 + call % 64);
        ht_append_bare(&cursor, HT_RAW_FREE, stamp_if_due(), block);
        // The compiler must not see that nobody reads the chunk.
        __asm__ volatile("" ::"r"(chunk) : "memory");
    }
    return clock_counter() - start;
}

void append_cost_measure(struct ht_raw_header *header) {
    header->append_cost_calls = CALLS;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t counts = one_round();
        if (!header->append_cost_counts || counts < header->append_cost_counts)
            header->append_cost_counts = (uint32_t)counts;
    }
}
