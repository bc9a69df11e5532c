// SPDX-License-Identifier: Apache-2.0
#include "event_section.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// ---- tokens ----

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

// ---- the section ----

void ht_section_coder_init(struct ht_section_coder *coder) {
    for (unsigned op = 0; op < 256; op++) coder->shape[op] = ht_op_shape((uint8_t)op);
}

bool ht_event_section_join(struct ht_event_section *section, struct ht_op_shape shape, uint8_t op,
                           uint32_t thread, uint64_t time, uint32_t slot, bool own) {
    uint32_t last = section->rows - 1;
    uint64_t step = time - section->last_time;
    bool alone = section->lone_query;
    bool query = shape.query && !shape.control;
    section->lone_query = query;
    if (query) section->features |= HT_TRACE_FEATURE_QUERIES;
    if (shape.control) section->features |= HT_TRACE_FEATURE_CONTROLS;
    if (shape.control) return false;
    if (section->rows < 2 || section->run_thread[section->runs - 1] != thread || section->slot[last] != slot)
        return false;
    if (query) {
        const struct ht_op_shape named = ht_op_shape(section->op[last]);
        if (step || !named.slot || named.ends_object || section->joined[last] & HT_JOINED_AFTER) return false;
        section->joined[last] |= HT_JOINED_AFTER;
        section->lone_query = false;
    } else {
        if (!alone || shape.makes_object || step >= HT_SHORT_TIMES || section->time[last] > UINT32_MAX - step)
            return false;
        section->op[last] = op;
        section->own[last] = own;
        section->time[last] += (uint32_t)step;
        section->last_time = time;
        section->joined[last] = HT_JOINED_BEFORE;
    }
    section->joined_queries++;
    return true;
}

// The lengths of the columns that have what codes leave open.
struct explicit_values {
    uint32_t slots, across;
};

// Codes the slot of one event, and appends what its code leaves open.
static uint32_t code_slot(const struct ht_event_section *section, struct ht_section_coder *coder,
                          struct explicit_values *explicit, uint32_t thread, uint32_t row,
                          const struct ht_op_shape *shape) {
    uint32_t slot = section->slot[row], code;
    coder->slot[explicit->slots] = slot;
    if (shape->makes_object) {
        code = slot_coder_encode_birth(&coder->slots, thread, slot);
        explicit->slots += code == HT_BIRTH_EXPLICIT;
    } else {
        bool reborn =
            !shape->ends_object && ht_functions[ht_op_function(section->op[row])].kind == HT_KIND_REALLOC;
        code = slot_coder_encode_named(&coder->slots, thread, slot, shape->ends_object, reborn,
                                       section->own[row], &coder->across[explicit->across]);
        explicit->slots += code < HT_NAMED_ACROSS;
        explicit->across += code == HT_NAMED_ACROSS;
    }
    return code;
}

// Codes all slots of a full section and counts the patterns that result. With the slots known, their hash
// entries can be fetched ahead.
static struct explicit_values code_events(const struct ht_event_section *section,
                                          struct ht_section_coder *coder) {
    enum { AHEAD = 12 };
    const uint64_t *size = section->size, *extra = section->extra;
    struct explicit_values explicit = {0};
    slot_coder_begin(&coder->slots);
    ht_tokenizer_begin(&coder->tokens);
    for (uint32_t run = 0, row = 0; run < section->runs; run++) {
        uint32_t thread = slot_coder_thread(&coder->slots, section->run_thread[run]);
        for (uint32_t end = row + section->run_length[run]; row < end; row++) {
            if (row + AHEAD < section->rows) slot_coder_prefetch(&coder->slots, section->slot[row + AHEAD]);
            const struct ht_op_shape *shape = &coder->shape[section->op[row]];
            uint32_t code = shape->slot ? code_slot(section, coder, &explicit, thread, row, shape) : 0;
            ht_tokenizer_add(&coder->tokens, ht_code_and_op(code, section->op[row], section->joined[row]),
                             *size & -(uint64_t)shape->size, *extra & -(uint64_t)shape->extra);
            size += shape->size;
            extra += shape->extra;
        }
    }
    ht_tokenizer_choose(&coder->tokens, coder->shape);
    return explicit;
}

// The values of open tokens, in columns of their own.
struct open_values {
    uint32_t named, sizes, extras;
};

static struct open_values spell_events(struct ht_section_coder *coder) {
    const struct ht_tokenizer *tokens = &coder->tokens;
    struct open_values values = {0};
    for (uint32_t row = 0; row < tokens->rows; row++) {
        const struct ht_event_pattern *event = &tokens->pattern[tokens->pattern_of[row]];
        coder->token[row] = (uint8_t)event->token;
        if (event->token < tokens->whole) continue;
        const struct ht_op_shape shape = coder->shape[ht_pattern_op(event)];
        coder->named[values.named] = ht_pattern_code(event);
        values.named += shape.slot && !shape.makes_object;
        coder->size[values.sizes] = event->size;
        values.sizes += shape.size;
        coder->extra[values.extras] = event->extra;
        values.extras += shape.extra;
    }
    return values;
}

// Splits times into the short ones and what is beyond them. Returns the length of the long time column.
static uint32_t split_times(const struct ht_event_section *section, struct ht_section_coder *coder) {
    uint32_t longs = 0;
    for (uint32_t row = 0; row < section->rows; row++)
        coder->time[row] = section->time[row] < HT_SHORT_TIMES ? (uint8_t)section->time[row] : HT_SHORT_TIMES;
    for (uint32_t row = 0; row < section->rows; row++) {
        coder->long_time[longs] = section->time[row] - HT_SHORT_TIMES;
        longs += section->time[row] >= HT_SHORT_TIMES;
    }
    return longs;
}

static int pack_tokens(const struct ht_section_coder *coder, bool any_joined, struct ht_packer *packer,
                       struct ht_payload *payload) {
    const struct ht_tokenizer *tokens = &coder->tokens;
    uint8_t op[HT_TOKENS_MAX], joined[HT_TOKENS_MAX];
    uint32_t code[HT_TOKENS_MAX];
    uint64_t size[HT_TOKENS_MAX], extra[HT_TOKENS_MAX];
    for (uint32_t i = 0; i < tokens->tokens; i++) {
        op[i] = ht_pattern_op(&tokens->token[i]);
        bool makes_object = coder->shape[op[i]].makes_object;
        // What an open token's event names is in the column of named codes.
        code[i] = i < tokens->whole || makes_object ? ht_pattern_code(&tokens->token[i]) : 0;
        joined[i] = ht_pattern_joined(&tokens->token[i]);
        size[i] = tokens->token[i].size;
        extra[i] = tokens->token[i].extra;
    }
    if (ht_pack_bytes(packer, payload, HT_COLUMN_TOKEN_OP, op, tokens->tokens) ||
        ht_pack_u32(packer, payload, HT_COLUMN_TOKEN_CODE, code, tokens->tokens, 0))
        return -1;
    if (any_joined && ht_pack_bytes(packer, payload, HT_COLUMN_JOINED, joined, tokens->tokens)) return -1;
    if (!tokens->whole) return 0;
    if (ht_pack_u64(packer, payload, HT_COLUMN_TOKEN_SIZE, size, tokens->whole, 0)) return -1;
    return ht_pack_u64(packer, payload, HT_COLUMN_TOKEN_EXTRA, extra, tokens->whole, 0);
}

int ht_event_section_pack(const struct ht_event_section *section, struct ht_section_coder *coder,
                          struct ht_packer *packer, struct ht_payload *payload) {
    const struct explicit_values explicit = code_events(section, coder);
    const uint32_t longs = split_times(section, coder);
    const struct open_values values = spell_events(coder);
    const struct {
        uint8_t id;
        const uint32_t *values;
        uint32_t count;
        bool difference;
    } column[] = {
        {HT_COLUMN_RUN_THREAD, section->run_thread, section->runs, false},
        {HT_COLUMN_RUN_LENGTH, section->run_length, section->runs, false},
        {HT_COLUMN_LONG_TIME, coder->long_time, longs, false},
        {HT_COLUMN_NAMED, coder->named, values.named, false},
        {HT_COLUMN_SLOT, coder->slot, explicit.slots, true},
        {HT_COLUMN_ACROSS, coder->across, explicit.across, false},
    };
    if (pack_tokens(coder, section->joined_queries > 0, packer, payload) ||
        ht_pack_bytes(packer, payload, HT_COLUMN_TOKEN, coder->token, section->rows) ||
        ht_pack_nibbles(packer, payload, HT_COLUMN_TIME, coder->time, section->rows))
        return -1;
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        if (column[i].count && ht_pack_u32(packer, payload, column[i].id, column[i].values, column[i].count,
                                           column[i].difference))
            return -1;
    if (section->any_site && ht_pack_u32(packer, payload, HT_COLUMN_SITE, section->site, section->sites, 0))
        return -1;
    if (values.sizes && ht_pack_u64(packer, payload, HT_COLUMN_SIZE, coder->size, values.sizes, 0)) return -1;
    return values.extras ? ht_pack_u64(packer, payload, HT_COLUMN_EXTRA, coder->extra, values.extras, 0) : 0;
}
