// SPDX-License-Identifier: Apache-2.0
// The events of one section of a trace while it is filled, column by column (docs/reference/trace-format.md).
#ifndef HEAPTAPE_EVENT_SECTION_H
#define HEAPTAPE_EVENT_SECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "columns.h"
#include "ops.h"
#include "slot_coder.h"
#include "trace_layout.h"

// ---- tokens: what a section's events consist of, one byte each (docs/reference/trace-format.md, "Tokens") ----
//
// A program does the same few things over and over: it allocates 24 bytes in the slot that it has just freed,
// it frees what was born two births ago. Each such pattern of op, slot code, size and extra that is common in
// a section becomes a token, and an event is the number of its token. The rare ones get open tokens, which
// have the op only; their values follow in columns of their own.

// All of an event, and of the queries joined to it, except its thread, its time and an explicit slot.
struct ht_event_pattern {
    uint64_t size, extra;
    uint64_t code_and_op;  // in the lowest byte the op, in 32 bits the code of its slot, then enum ht_joined
    uint32_t count;        // events that are so
    uint32_t token;
};

static inline uint64_t ht_code_and_op(uint32_t code, uint8_t op, uint8_t joined) {
    return (uint64_t)joined << 40 | (uint64_t)code << 8 | op;
}
static inline uint8_t ht_pattern_op(const struct ht_event_pattern *p) { return (uint8_t)p->code_and_op; }
static inline uint32_t ht_pattern_code(const struct ht_event_pattern *p) {
    return (uint32_t)(p->code_and_op >> 8);
}

static inline uint8_t ht_pattern_joined(const struct ht_event_pattern *p) {
    return (uint8_t)(p->code_and_op >> 40);
}

// Finds the tokens of one section. Starts zeroed; large.
struct ht_tokenizer {
    uint32_t rows, patterns;
    uint16_t pattern_of[HT_SECTION_ROWS_MAX];  // each event's
    struct ht_event_pattern pattern[HT_SECTION_ROWS_MAX];
    // Open addressing: a pattern's number and one, 0 where there is none.
    uint32_t table[2 * HT_SECTION_ROWS_MAX];
    uint32_t entry[HT_SECTION_ROWS_MAX];  // each pattern's in the table
    // The outcome: the first `whole` tokens have everything, those behind them op and birth code.
    uint32_t tokens, whole;
    struct ht_event_pattern token[HT_TOKENS_MAX];
};

void ht_tokenizer_begin(struct ht_tokenizer *tokenizer);

static inline uint32_t ht_pattern_home(uint64_t code_and_op, uint64_t size, uint64_t extra) {
    uint64_t mixed = size ^ (code_and_op << 24 | code_and_op >> 40) ^ (extra << 44 | extra >> 20);
    return (uint32_t)((mixed * UINT64_C(0x9e3779b97f4a7c15)) >> 47);
}
static_assert(2 * HT_SECTION_ROWS_MAX == 1 << 17, "ht_pattern_home yields 17 bits");

// Adds the section's next event.
static inline void ht_tokenizer_add(struct ht_tokenizer *tokenizer, uint64_t code_and_op, uint64_t size,
                                    uint64_t extra) {
    uint32_t i = ht_pattern_home(code_and_op, size, extra), number;
    struct ht_event_pattern *pattern;
    for (; (number = tokenizer->table[i]); i = (i + 1) % (2 * HT_SECTION_ROWS_MAX)) {
        pattern = &tokenizer->pattern[number - 1];
        if (pattern->code_and_op == code_and_op && pattern->size == size && pattern->extra == extra) break;
    }
    if (!number) {
        pattern = &tokenizer->pattern[tokenizer->patterns];
        *pattern = (struct ht_event_pattern){.size = size, .extra = extra, .code_and_op = code_and_op};
        tokenizer->entry[tokenizer->patterns] = i;
        number = tokenizer->table[i] = ++tokenizer->patterns;
    }
    pattern->count++;
    tokenizer->pattern_of[tokenizer->rows++] = (uint16_t)(number - 1);
}

// All events have been added: chooses the tokens.
void ht_tokenizer_choose(struct ht_tokenizer *tokenizer, const struct ht_op_shape shape[256]);

// ---- the section ----

struct ht_event_section {
    uint32_t rows, sizes, extras, runs;
    uint32_t joined_queries;  // events that are part of a row
    uint32_t features;        // enum ht_trace_feature: that its events need
    bool lone_query;          // is the last row a query, with none joined to it
    uint64_t first_event;
    uint64_t first_time, last_time;  // units
    uint8_t op[HT_SECTION_ROWS_MAX];
    uint32_t run_thread[HT_SECTION_ROWS_MAX], run_length[HT_SECTION_ROWS_MAX];
    uint32_t time[HT_SECTION_ROWS_MAX];   // units since the event before
    uint32_t slot[HT_SECTION_ROWS_MAX];   // each event's, coded when the section is full
    uint8_t joined[HT_SECTION_ROWS_MAX];  // enum ht_joined
    bool own[HT_SECTION_ROWS_MAX];        // the slot's object was allocated by the event's own thread
    uint64_t size[HT_SECTION_ROWS_MAX], extra[HT_SECTION_ROWS_MAX];
    uint32_t sites;  // events that may have a call site
    bool any_site;   // is any known
    uint32_t site[HT_SECTION_ROWS_MAX];
};

// What packing needs besides the section: scratch space that outlives it. Starts zeroed.
struct ht_section_coder {
    struct ht_op_shape shape[256];  // filled by ht_section_coder_init
    struct slot_coder slots;
    struct ht_tokenizer tokens;
    // Columns under construction.
    uint8_t token[HT_SECTION_ROWS_MAX], time[HT_SECTION_ROWS_MAX];
    uint32_t long_time[HT_SECTION_ROWS_MAX], named[HT_SECTION_ROWS_MAX];
    uint32_t slot[HT_SECTION_ROWS_MAX], across[HT_SECTION_ROWS_MAX];
    uint64_t size[HT_SECTION_ROWS_MAX], extra[HT_SECTION_ROWS_MAX];
};

void ht_section_coder_init(struct ht_section_coder *coder);

// Is there room for an event at this time (units)? The time column has 32 bits: a longer pause begins a new
// section, which has a time of its own.
static inline bool ht_event_section_takes(const struct ht_event_section *section, uint64_t time) {
    return section->rows + section->joined_queries < HT_SECTION_ROWS_MAX &&
           (section->rows == 0 || time - section->last_time <= UINT32_MAX);
}

// Makes a query and the event before or after it one row, if they are neighbours. False: it is none such.
bool ht_event_section_join(struct ht_event_section *section, struct ht_op_shape shape, uint8_t op,
                           uint32_t thread, uint64_t time, uint32_t slot, bool own);

static inline void ht_event_section_put(struct ht_event_section *section, struct ht_op_shape shape,
                                        uint8_t op, uint32_t thread, uint64_t time, uint32_t slot, bool own,
                                        uint64_t size, uint64_t extra, uint32_t site) {
    uint32_t row = section->rows;
    if (row == 0) section->first_time = section->last_time = time;
    assert(shape.valid && time >= section->last_time && (!shape.slot || slot != 0));
    bool joins = __builtin_expect(shape.query || shape.control || section->lone_query, 0) &&
                 ht_event_section_join(section, shape, op, thread, time, slot, own);
    if (!joins) {
        if (row && section->run_thread[section->runs - 1] == thread) {
            section->run_length[section->runs - 1]++;
        } else {
            section->run_thread[section->runs] = thread;
            section->run_length[section->runs++] = 1;
        }
        section->op[row] = op;
        section->time[row] = (uint32_t)(time - section->last_time);
        section->last_time = time;
        section->slot[row] = slot;
        section->own[row] = own;
        section->joined[row] = 0;
        section->rows++;
    }
    // Branch-free appends: the value is always written, the count moves only if it belongs.
    section->size[section->sizes] = size;
    section->sizes += shape.size;
    section->extra[section->extras] = extra;
    section->extras += shape.extra;
    section->site[section->sites] = site;
    section->sites += shape.site;
    section->any_site |= shape.site && site;
}

// Codes the section's columns into an empty payload. Returns 0, or -1 if memory is short.
int ht_event_section_pack(const struct ht_event_section *section, struct ht_section_coder *coder,
                          struct ht_packer *packer, struct ht_payload *payload);

#endif
