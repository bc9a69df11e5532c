// SPDX-License-Identifier: Apache-2.0
// One section of events: packed and decoded it is the same, whatever is common in it; and columns that
// contradict one another are told, not believed.
#include "unit_support.h"

#include <string.h>

#include "event_arrays.h"
#include "event_section.h"

struct workshop {
    struct ht_event_section *section;
    struct ht_section_coder *coder;
    struct ht_event_arrays *arrays;
    struct ht_packer *packer;
    struct ht_unpacker *unpacker;
    struct ht_payload payload;
    uint8_t *bytes;  // the payload as it would be read: directory and columns
};

static struct workshop open_workshop(void) {
    struct workshop shop = {.section = calloc(1, sizeof *shop.section),
                            .coder = calloc(1, sizeof *shop.coder),
                            .arrays = calloc(1, sizeof *shop.arrays),
                            .packer = ht_packer_new(3),
                            .unpacker = ht_unpacker_new()};
    ht_section_coder_init(shop.coder);
    ht_event_arrays_init(shop.arrays);
    return shop;
}

static void close_workshop(struct workshop *shop) {
    free(shop->section);
    free(shop->coder);
    free(shop->arrays);
    free(shop->bytes);
    ht_packer_free(shop->packer);
    ht_unpacker_free(shop->unpacker);
    ht_payload_free(&shop->payload);
}

static void put(struct workshop *shop, uint8_t op, uint32_t thread, uint64_t time, uint32_t slot,
                uint64_t size, uint64_t extra) {
    assert_true(ht_event_section_takes(shop->section, time));
    ht_event_section_put(shop->section, shop->coder->shape[op], op, thread, time, slot, true, size, extra, 0);
}

// Decodes what has been packed. Returns what is wrong, or NULL.
static const char *decode(struct workshop *shop, uint32_t rows) {
    size_t directory_bytes = shop->payload.columns * sizeof *shop->payload.entry;
    // Of the very size, so that a sanitizer sees a read beyond.
    free(shop->bytes);
    shop->bytes = malloc(directory_bytes + shop->payload.used);
    memcpy(shop->bytes, shop->payload.entry, directory_bytes);
    memcpy(shop->bytes + directory_bytes, shop->payload.bytes, shop->payload.used);
    const struct ht_columns columns = {shop->bytes, directory_bytes + shop->payload.used,
                                       shop->payload.columns};
    return ht_event_arrays_decode(shop->arrays, shop->unpacker, &columns, rows, 0, 1);
}

static size_t pack(struct workshop *shop) {
    ht_payload_reset(&shop->payload);
    assert_int_equal(ht_event_section_pack(shop->section, shop->coder, shop->packer, &shop->payload), 0);
    assert_string_equal("", decode(shop, shop->section->rows + shop->section->joined_queries) ?: "");
    return shop->payload.used;
}

// Many more common patterns than tokens, and uncommon ones between them.
static void more_patterns_than_tokens(void **state) {
    (void)state;
    enum { PATTERNS = 1000 };
    struct workshop shop = open_workshop();
    uint64_t seed = 4, time = 0;
    uint64_t size[HT_SECTION_ROWS_MAX];
    for (uint32_t row = 0; row < HT_SECTION_ROWS_MAX; row++) {
        bool ends = row % 2;
        uint64_t pattern = unit_random(&seed) % PATTERNS * (unit_random(&seed) % PATTERNS) / PATTERNS;
        size[row] = ends ? 0 : unit_random(&seed) % 50 ? pattern * 8 : unit_random_width(&seed);
        put(&shop, ht_op(ends ? HT_FREE : HT_MALLOC, HT_PLAIN), 0, time, 1, size[row], 0);
        time += unit_random(&seed) % 40;
    }
    pack(&shop);
    // One place for each kind of open token is kept free, whether it is needed or not.
    assert_in_range(shop.coder->tokens.tokens, HT_TOKENS_MAX - 3, HT_TOKENS_MAX);
    for (uint32_t row = 0; row < HT_SECTION_ROWS_MAX; row++) {
        assert_int_equal(shop.arrays->size[row], size[row]);
        assert_int_equal(shop.arrays->slot[row], 1);
    }
    close_workshop(&shop);
}

// Every op there is, each of them common and each of them rare: open tokens must always find room.
static void all_ops_common_and_rare(void **state) {
    (void)state;
    struct workshop shop = open_workshop();
    uint8_t op[HT_SECTION_ROWS_MAX];
    uint64_t extra[HT_SECTION_ROWS_MAX], seed = 6;
    uint32_t slot[HT_SECTION_ROWS_MAX];
    for (uint32_t row = 0; row < HT_SECTION_ROWS_MAX; row++) {
        struct ht_op_shape shape;
        do op[row] = (uint8_t)unit_random(&seed);
        while (!(shape = ht_op_shape(op[row])).valid);
        slot[row] = shape.slot ? 1 + (uint32_t)(unit_random(&seed) % 3) : 0;
        extra[row] = !shape.extra ? 0 : unit_random(&seed) % 4 ? 16 : unit_random_width(&seed);
        put(&shop, op[row], 0, row, slot[row], shape.size ? 32 : 0, extra[row]);
    }
    pack(&shop);
    for (uint32_t row = 0; row < HT_SECTION_ROWS_MAX; row++) {
        assert_int_equal(shop.arrays->op[row], op[row]);
        assert_int_equal(shop.arrays->slot[row], slot[row]);
        assert_int_equal(shop.arrays->extra[row], extra[row]);
    }
    close_workshop(&shop);
}

static void a_repeating_program_costs_next_to_nothing(void **state) {
    (void)state;
    struct workshop shop = open_workshop();
    for (uint32_t row = 0; row < HT_SECTION_ROWS_MAX; row++)
        put(&shop, ht_op(row % 2 ? HT_FREE : HT_CALLOC, HT_PLAIN), 0, row, 1, row % 2 ? 0 : 24,
            row % 2 ? 0 : 3);
    size_t bytes = pack(&shop);
    assert_true(bytes < 200);
    close_workshop(&shop);
}

// Random sizes and times: what cannot be compressed is the same with the queries and without them.
static void queries_next_to_their_calls_cost_nothing(void **state) {
    (void)state;
    enum { CALLS = 20000 };
    size_t bytes[2];
    for (unsigned asks = 0; asks < 2; asks++) {
        struct workshop shop = open_workshop();
        uint64_t seed = 8, time = 0;
        for (uint32_t call = 0; call < CALLS; call++) {
            uint32_t slot = 1 + call / 2 % 7;
            uint64_t size = 8 * (unit_random(&seed) % 40);
            time += unit_random(&seed) % 99;
            bool ends = call % 2;
            if (asks && ends) put(&shop, ht_op(HT_USABLE_SIZE, HT_PLAIN), 0, time, slot, 0, 0);
            put(&shop, ht_op(ends ? HT_FREE : HT_MALLOC, HT_PLAIN), 0, time, slot, ends ? 0 : size, 0);
            if (asks && !ends) put(&shop, ht_op(HT_USABLE_SIZE, HT_PLAIN), 0, time, slot, 0, 0);
        }
        bytes[asks] = pack(&shop);
        close_workshop(&shop);
    }
    assert_true(bytes[1] - bytes[0] < 100);
}

static void times_around_the_short_ones(void **state) {
    (void)state;
    static const uint64_t step[] = {0, 1, 13, 14, 15, 16, 17, 255, 256, 270, 271, UINT32_MAX};
    struct workshop shop = open_workshop();
    uint64_t time = 0, steps = sizeof step / sizeof *step;
    for (uint32_t row = 0; row < steps; row++)
        put(&shop, ht_op(HT_FREE, HT_NULL), 0, time += step[row], 0, 0, 0);
    assert_false(ht_event_section_takes(shop.section, time + UINT32_MAX + 1));
    pack(&shop);
    time = 0;
    for (uint32_t row = 0; row < steps; row++) assert_int_equal(shop.arrays->time_ns[row], time += step[row]);
    close_workshop(&shop);
}

// malloc(8), by a whole token, and a free of it, by an open one, with some columns otherwise.
struct columns_in_question {
    uint32_t tokens, wholes, token[2], op[2], code[2], size, extra, named, long_times;
};

static const char *judge(const struct columns_in_question *c) {
    struct workshop shop = open_workshop();
    const uint8_t token[2] = {(uint8_t)c->token[0], (uint8_t)c->token[1]}, time[2] = {0, 15};
    const uint8_t op[2] = {(uint8_t)c->op[0], (uint8_t)c->op[1]};
    const uint32_t thread = 0, length = 2, slot = 7, longs[2] = {1, 1};
    ht_pack_bytes(shop.packer, &shop.payload, HT_COLUMN_TOKEN, token, 2);
    ht_pack_u32(shop.packer, &shop.payload, HT_COLUMN_RUN_THREAD, &thread, 1, 0);
    ht_pack_u32(shop.packer, &shop.payload, HT_COLUMN_RUN_LENGTH, &length, 1, 0);
    ht_pack_nibbles(shop.packer, &shop.payload, HT_COLUMN_TIME, time, 2);
    ht_pack_u32(shop.packer, &shop.payload, HT_COLUMN_LONG_TIME, longs, c->long_times, 0);
    ht_pack_bytes(shop.packer, &shop.payload, HT_COLUMN_TOKEN_OP, op, c->tokens);
    ht_pack_u32(shop.packer, &shop.payload, HT_COLUMN_TOKEN_CODE, c->code, 2, 0);
    ht_pack_u32(shop.packer, &shop.payload, HT_COLUMN_TOKEN_SIZE, (uint32_t[]){c->size, 0, 0}, c->wholes, 0);
    ht_pack_u32(shop.packer, &shop.payload, HT_COLUMN_TOKEN_EXTRA, (uint32_t[]){c->extra, 0, 0}, c->wholes,
                0);
    ht_pack_u32(shop.packer, &shop.payload, HT_COLUMN_NAMED, &c->named, 1, 0);
    ht_pack_u32(shop.packer, &shop.payload, HT_COLUMN_SLOT, &slot, 1, 0);
    const char *wrong = decode(&shop, 2);
    if (!wrong) {
        assert_int_equal(shop.arrays->size[0], 8);
        assert_int_equal(shop.arrays->slot[1], 7);
        assert_int_equal(shop.arrays->time_ns[1], 16);
    }
    close_workshop(&shop);
    return wrong;
}

static void contradictions_are_named(void **state) {
    (void)state;
    const struct columns_in_question sound = {.tokens = 2,
                                              .wholes = 1,
                                              .token = {0, 1},
                                              .op = {HT_MALLOC, HT_FREE},
                                              .code = {HT_BIRTH_EXPLICIT, 0},
                                              .size = 8,
                                              .named = HT_NAMED_BY_BIRTH,
                                              .long_times = 1};
    assert_null(judge(&sound));
    struct columns_in_question c[10];
    const char *says[] = {"expected token numbers within the list, found 2",
                          "expected another number of values in a column, found 2",
                          "expected at most as many token sizes as tokens, found 3",
                          "expected known ops, found 27",
                          "expected birth codes of 0 or 1, found 2",
                          "expected tokens with the values that their op has",
                          "expected slot codes that name a slot above 0, found 0",
                          "expected another number of values in a column, found 2",
                          "expected slot codes that name a slot above 0, found 0",
                          "expected one more column"};
    for (size_t i = 0; i < 10; i++) c[i] = sound;
    c[0].token[1] = 2;
    c[1].tokens = 1;
    c[2].wholes = 3;
    c[3].op[1] = 27;
    c[4].code[0] = 2;
    c[5].extra = 1;
    c[6].named = HT_NAMED_BY_BIRTH + 1;
    c[7].long_times = 2;
    c[8].named = UINT32_MAX;
    c[9].named = HT_NAMED_ACROSS;
    for (size_t i = 0; i < 10; i++) {
        const char *wrong = judge(&c[i]);
        if (!wrong || strcmp(wrong, says[i]) != 0) fail_msg("case %zu: %s", i, wrong ? wrong : "nothing");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(more_patterns_than_tokens),
                                       cmocka_unit_test(all_ops_common_and_rare),
                                       cmocka_unit_test(a_repeating_program_costs_next_to_nothing),
                                       cmocka_unit_test(queries_next_to_their_calls_cost_nothing),
                                       cmocka_unit_test(times_around_the_short_ones),
                                       cmocka_unit_test(contradictions_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
