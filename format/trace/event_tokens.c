// SPDX-License-Identifier: Apache-2.0
#include "event_tokens.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// A pattern that is rarer does not repay its place among the tokens.
enum { WORTH_A_TOKEN = 16, CANDIDATES_MAX = HT_SECTION_ROWS_MAX / WORTH_A_TOKEN };

// Open tokens by what is joined, birth code (0 where an event makes no object) and op: the token's number and one.
struct open_tokens {
    uint16_t token[4][2][256];
};

void ht_tokenizer_begin(struct ht_tokenizer *tokenizer) {
    // Most of the table is empty already: a section has far fewer patterns than room for them.
    for (uint32_t i = 0; i < tokenizer->patterns; i++) tokenizer->table[tokenizer->entry[i]] = 0;
    tokenizer->rows = tokenizer->patterns = tokenizer->tokens = tokenizer->whole = 0;
}

static int by_count(const void *a, const void *b) {
    const struct ht_event_pattern *left = *(struct ht_event_pattern *const *)a;
    const struct ht_event_pattern *right = *(struct ht_event_pattern *const *)b;
    if (left->count != right->count) return left->count < right->count ? 1 : -1;
    return (left > right) - (left < right);
}

// Op, code, size, extra: neighbours have bytes in common, which compresses well.
static int by_value(const void *a, const void *b) {
    const struct ht_event_pattern *left = *(struct ht_event_pattern *const *)a;
    const struct ht_event_pattern *right = *(struct ht_event_pattern *const *)b;
    uint8_t left_op = ht_pattern_op(left), right_op = ht_pattern_op(right);
    if (left_op != right_op) return left_op < right_op ? -1 : 1;
    if (left->code_and_op != right->code_and_op) return left->code_and_op < right->code_and_op ? -1 : 1;
    if (left->size != right->size) return left->size < right->size ? -1 : 1;
    return (left->extra > right->extra) - (left->extra < right->extra);
}

// The place of a pattern's open token.
static uint16_t *open_token(struct open_tokens *open, const struct ht_op_shape shape[256],
                            const struct ht_event_pattern *pattern) {
    uint8_t op = ht_pattern_op(pattern);
    uint32_t code = shape[op].makes_object ? ht_pattern_code(pattern) : 0;
    assert(code < 2);
    return &open->token[ht_pattern_joined(pattern)][code][op];
}

void ht_tokenizer_choose(struct ht_tokenizer *tokenizer, const struct ht_op_shape shape[256]) {
    struct ht_event_pattern *candidate[CANDIDATES_MAX];
    struct open_tokens open = {{{{0}}}};
    uint32_t candidates = 0, opens = 0;
    for (uint32_t i = 0; i < tokenizer->patterns; i++) {
        struct ht_event_pattern *pattern = &tokenizer->pattern[i];
        uint16_t *seen = open_token(&open, shape, pattern);
        opens += !*seen;
        *seen = 1;
        pattern->token = HT_TOKENS_MAX;
        if (pattern->count >= WORTH_A_TOKEN) candidate[candidates++] = pattern;
    }
    uint32_t room = HT_TOKENS_MAX - opens;
    if (candidates > room) {
        qsort(candidate, candidates, sizeof *candidate, by_count);
        candidates = room;
    }
    qsort(candidate, candidates, sizeof *candidate, by_value);
    for (uint32_t i = 0; i < candidates; i++) {
        tokenizer->token[i] = *candidate[i];
        candidate[i]->token = i;
    }
    tokenizer->tokens = tokenizer->whole = candidates;
    memset(&open, 0, sizeof open);
    for (uint32_t i = 0; i < tokenizer->patterns; i++) {
        struct ht_event_pattern *pattern = &tokenizer->pattern[i];
        if (pattern->token < HT_TOKENS_MAX) continue;
        uint16_t *token = open_token(&open, shape, pattern);
        if (!*token) {
            assert(tokenizer->tokens < HT_TOKENS_MAX);
            tokenizer->token[tokenizer->tokens++] = *pattern;
            *token = (uint16_t)tokenizer->tokens;
        }
        pattern->token = *token - 1u;
    }
}
