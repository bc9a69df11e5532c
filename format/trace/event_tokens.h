// SPDX-License-Identifier: Apache-2.0
// Tokens: what a section's events consist of, one byte each (docs/reference/trace-format.md, "Tokens").
//
// A program does the same few things over and over: it allocates 24 bytes in the slot that it has just freed,
// it frees what was born two births ago. Each such pattern of op, slot code, size and extra that is common in
// a section becomes a token, and an event is the number of its token. The rare ones get open tokens, which
// have the op only; their values follow in columns of their own.
#ifndef HEAPTAPE_EVENT_TOKENS_H
#define HEAPTAPE_EVENT_TOKENS_H

#include <stdint.h>

#include "ops.h"
#include "trace_layout.h"

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

#endif
