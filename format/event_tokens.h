// Tokens: what a section's events consist of, one byte each (docs/trace-format.md, "Tokens").
//
// A program does the same few things over and over: it allocates 24 bytes in the slot it has just freed, it
// frees what was born two births ago. Each such combination of op, slot code, size and extra that is common
// in a section becomes a token, and an event is the number of its token. What is rare is an open token, which
// says the op only; its values follow in columns of their own.
#ifndef HEAPTAPE_EVENT_TOKENS_H
#define HEAPTAPE_EVENT_TOKENS_H

#include <stdint.h>

#include "ops.h"
#include "trace_layout.h"

// What one event is but for thread, time and explicit slot.
struct ht_event_pattern {
    uint64_t size, extra;
    uint32_t code;  // of its slot: a birth code where the event makes an object, a named code otherwise
    uint8_t op;
};

// Finds the tokens of one section. Starts zeroed; large.
struct ht_tokenizer {
    uint32_t rows, patterns;
    uint16_t pattern_of[HT_SECTION_ROWS_MAX];  // each event's
    struct ht_event_pattern pattern[HT_SECTION_ROWS_MAX];
    uint32_t count[HT_SECTION_ROWS_MAX];    // events of each pattern
    uint8_t token_of[HT_SECTION_ROWS_MAX];  // each pattern's
    // Open addressing: a pattern's number and one, 0 where there is none.
    uint32_t table[2 * HT_SECTION_ROWS_MAX];
    // The outcome: the first `whole` tokens say everything, those behind them only op and birth code.
    uint32_t tokens, whole;
    struct ht_event_pattern token[HT_TOKENS_MAX];
};

void ht_tokenizer_begin(struct ht_tokenizer *tokenizer);

static inline uint32_t ht_pattern_home(const struct ht_event_pattern *p) {
    uint64_t mixed = (p->size * UINT64_C(0x9e3779b97f4a7c15)) ^ (p->extra * UINT64_C(0xd6e8feb86659fd93)) ^
                     ((uint64_t)p->code << 8 | p->op);
    return (uint32_t)((mixed * UINT64_C(0xff51afd7ed558ccd)) >> 47);
}
static_assert(2 * HT_SECTION_ROWS_MAX == 1 << 17, "ht_pattern_home yields 17 bits");

static inline int ht_pattern_same(const struct ht_event_pattern *a, const struct ht_event_pattern *b) {
    return a->size == b->size && a->extra == b->extra && a->code == b->code && a->op == b->op;
}

// Adds the section's next event.
static inline void ht_tokenizer_add(struct ht_tokenizer *tokenizer, const struct ht_event_pattern *event) {
    uint32_t i = ht_pattern_home(event), number;
    while ((number = tokenizer->table[i]) && !ht_pattern_same(&tokenizer->pattern[number - 1], event))
        i = (i + 1) % (2 * HT_SECTION_ROWS_MAX);
    if (!number) {
        tokenizer->pattern[tokenizer->patterns] = *event;
        tokenizer->count[tokenizer->patterns] = 0;
        number = tokenizer->table[i] = ++tokenizer->patterns;
    }
    tokenizer->count[number - 1]++;
    tokenizer->pattern_of[tokenizer->rows++] = (uint16_t)(number - 1);
}

// All events have been added: chooses the tokens.
void ht_tokenizer_choose(struct ht_tokenizer *tokenizer, const struct ht_op_shape shape[256]);

#endif
