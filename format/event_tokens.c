#include "event_tokens.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// A pattern that is rarer does not repay its place in the list of tokens.
enum { WORTH_A_TOKEN = 16, CANDIDATES_MAX = HT_SECTION_ROWS_MAX / WORTH_A_TOKEN };

struct candidate {
    uint32_t count, pattern;
};

void ht_tokenizer_begin(struct ht_tokenizer *tokenizer) {
    tokenizer->rows = tokenizer->patterns = tokenizer->tokens = tokenizer->whole = 0;
    memset(tokenizer->table, 0, sizeof tokenizer->table);
}

static int by_count(const void *a, const void *b) {
    const struct candidate *left = a, *right = b;
    if (left->count != right->count) return left->count < right->count ? 1 : -1;
    return (left->pattern > right->pattern) - (left->pattern < right->pattern);
}

#define COMPARE(member)                                                                                      \
    if (left->member != right->member) return left->member < right->member ? -1 : 1

static int by_value(const void *a, const void *b) {
    const struct ht_event_pattern *left = a, *right = b;
    COMPARE(op);
    COMPARE(code);
    COMPARE(size);
    COMPARE(extra);
    return 0;
}

// Makes the commonest candidates whole tokens, in an order of their values that compresses well.
static void choose_whole(struct ht_tokenizer *tokenizer, struct candidate *candidate, uint32_t candidates,
                         uint32_t room) {
    if (candidates > room) {
        qsort(candidate, candidates, sizeof *candidate, by_count);
        candidates = room;
    }
    for (uint32_t i = 0; i < candidates; i++) tokenizer->token[i] = tokenizer->pattern[candidate[i].pattern];
    qsort(tokenizer->token, candidates, sizeof *tokenizer->token, by_value);
    tokenizer->tokens = tokenizer->whole = candidates;
}

// The token of a pattern that is not whole: the open one of its op, and of its code where it makes an object.
static uint8_t open_token(struct ht_tokenizer *tokenizer, const struct ht_event_pattern *pattern,
                          bool makes_object, uint16_t open_of[2][256]) {
    uint32_t code = makes_object ? pattern->code : 0;
    assert(code < 2);
    uint16_t *open = &open_of[code][pattern->op];
    if (!*open) {
        assert(tokenizer->tokens < HT_TOKENS_MAX);
        tokenizer->token[tokenizer->tokens++] = (struct ht_event_pattern){.op = pattern->op, .code = code};
        *open = (uint16_t)tokenizer->tokens;
    }
    return (uint8_t)(*open - 1);
}

void ht_tokenizer_choose(struct ht_tokenizer *tokenizer, const struct ht_op_shape shape[256]) {
    struct candidate candidate[CANDIDATES_MAX];
    uint32_t candidates = 0, opens = 0;
    bool seen[2][256] = {{false}};
    for (uint32_t i = 0; i < tokenizer->patterns; i++) {
        const struct ht_event_pattern *pattern = &tokenizer->pattern[i];
        bool *known = &seen[shape[pattern->op].makes_object ? pattern->code : 0][pattern->op];
        opens += !*known;
        *known = true;
        if (tokenizer->count[i] >= WORTH_A_TOKEN)
            candidate[candidates++] = (struct candidate){tokenizer->count[i], i};
    }
    choose_whole(tokenizer, candidate, candidates, HT_TOKENS_MAX - opens);
    uint16_t open_of[2][256] = {{0}};
    for (uint32_t i = 0; i < tokenizer->patterns; i++) {
        const struct ht_event_pattern *pattern = &tokenizer->pattern[i];
        const struct ht_event_pattern *found =
            tokenizer->count[i] < WORTH_A_TOKEN
                ? NULL
                : bsearch(pattern, tokenizer->token, tokenizer->whole, sizeof *found, by_value);
        tokenizer->token_of[i] =
            found ? (uint8_t)(found - tokenizer->token)
                  : open_token(tokenizer, pattern, shape[pattern->op].makes_object, open_of);
    }
}
