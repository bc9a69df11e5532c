// SPDX-License-Identifier: Apache-2.0
// Decodes an events section into arrays: op, thread, time, slot, size and extra of every event.
#ifndef HEAPTAPE_EVENT_ARRAYS_H
#define HEAPTAPE_EVENT_ARRAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "columns.h"
#include "ops.h"
#include "slot_coder.h"

// A token with what its op implies, ready for use in the loop over the events.
struct ht_decoded_token {
    uint64_t size, extra;
    uint32_t code;
    uint8_t op, joined;
    bool makes_object, has_slot, ends_object;
    bool reborn, bears;                              // is what it names born again; is anything born
    bool code_follows, size_follows, extra_follows;  // open: the values are the next of their columns
    bool site_follows;                               // if the section has sites
};

struct ht_event_arrays {
    // Dense: one value per event, 0 where it has none.
    uint8_t op[HT_SECTION_ROWS_MAX];
    uint32_t thread[HT_SECTION_ROWS_MAX], slot[HT_SECTION_ROWS_MAX];
    uint64_t time_ns[HT_SECTION_ROWS_MAX], size[HT_SECTION_ROWS_MAX], extra[HT_SECTION_ROWS_MAX];
    uint32_t site[HT_SECTION_ROWS_MAX];  // if has_sites
    bool has_sites;
    uint64_t last_units;  // the time of the last event
    // What they came from. A column that is read branch-free is read one value beyond its end.
    struct ht_op_shape shape[256];
    uint32_t rows, tokens, runs;  // rows: until all is decoded without joined queries
    bool joins;
    struct ht_decoded_token token_table[HT_TOKENS_MAX];
    uint8_t token[HT_SECTION_ROWS_MAX], short_time[HT_SECTION_ROWS_MAX];
    uint32_t run_thread[HT_SECTION_ROWS_MAX], run_length[HT_SECTION_ROWS_MAX];
    uint32_t run_number[HT_SECTION_ROWS_MAX];  // the threads' numbers within the section
    uint32_t long_time[HT_SECTION_ROWS_MAX + 1];
    uint32_t open_code[HT_SECTION_ROWS_MAX + 1];
    uint32_t explicit_slot[HT_SECTION_ROWS_MAX + 1], across[HT_SECTION_ROWS_MAX + 1];
    uint64_t open_size[HT_SECTION_ROWS_MAX + 1], open_extra[HT_SECTION_ROWS_MAX + 1];
    uint32_t stored_site[HT_SECTION_ROWS_MAX + 1];
    struct slot_coder slots;
};

// The arrays start zeroed.
void ht_event_arrays_init(struct ht_event_arrays *arrays);

// Returns NULL, or what is wrong with the section.
const char *ht_event_arrays_decode(struct ht_event_arrays *arrays, struct ht_unpacker *unpacker,
                                   const struct ht_columns *columns, uint32_t rows, uint64_t first_time_units,
                                   uint32_t time_unit_ns);

#endif
