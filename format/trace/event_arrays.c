// SPDX-License-Identifier: Apache-2.0
#include "event_arrays.h"

#include "error.h"

void ht_event_arrays_init(struct ht_event_arrays *arrays) {
    for (unsigned op = 0; op < 256; op++) arrays->shape[op] = ht_op_shape((uint8_t)op);
}

// Spreads the runs over the rows. Returns what is wrong, or NULL.
static const char *decode_threads(struct ht_event_arrays *arrays, struct ht_unpacker *unpacker,
                                  const struct ht_columns *columns) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    bool found = ht_find_column(columns, HT_COLUMN_RUN_THREAD, &entry, &stored) != NULL;
    if (found ? entry.values > arrays->rows : arrays->rows > 0) return "expected a column of thread runs";
    uint32_t runs = arrays->runs = found ? entry.values : 0, row = 0;
    const char *wrong = found ? ht_unpack_u32(unpacker, &entry, stored, arrays->run_thread) : NULL;
    if (!wrong) wrong = ht_column_u32(unpacker, columns, HT_COLUMN_RUN_LENGTH, arrays->run_length, runs);
    for (uint32_t run = 0; run < runs && !wrong; run++) {
        if (arrays->run_length[run] > arrays->rows - row || arrays->run_thread[run] >= HT_THREADS_MAX)
            return "expected thread runs that add up to the rows";
        for (uint32_t end = row + arrays->run_length[run]; row < end; row++)
            arrays->thread[row] = arrays->run_thread[run];
    }
    if (!wrong && row != arrays->rows) wrong = ht_found("expected thread runs that add up to the rows", row);
    return wrong;
}

static const char *decode_times(struct ht_event_arrays *arrays, struct ht_unpacker *unpacker,
                                const struct ht_columns *columns, uint64_t time, uint64_t unit_ns) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    bool found = ht_find_column(columns, HT_COLUMN_TIME, &entry, &stored) != NULL;
    if ((found ? entry.values : 0) != arrays->rows)
        return ht_found("expected a time for each row", found ? entry.values : 0);
    const char *wrong = found ? ht_unpack_nibbles(unpacker, &entry, stored, arrays->short_time) : NULL;
    if (wrong) return wrong;
    uint32_t longs = 0;
    for (uint32_t row = 0; row < arrays->rows; row++) longs += arrays->short_time[row] == HT_SHORT_TIMES;
    wrong = ht_column_u32(unpacker, columns, HT_COLUMN_LONG_TIME, arrays->long_time, longs);
    if (wrong) return wrong;
    const uint32_t *next = arrays->long_time;
    // The sum stays within 64 bits: 65,536 times of 32 bits, from a start that the reader has bounded.
    for (uint32_t row = 0; row < arrays->rows; row++) {
        uint32_t is_long = arrays->short_time[row] == HT_SHORT_TIMES;
        time += arrays->short_time[row] + (uint64_t)(*next & -is_long);
        next += is_long;
        arrays->time_ns[row] = time * unit_ns;
    }
    arrays->last_units = time;
    return NULL;
}

// Makes a token ready. whole: it says everything. Returns what is wrong, or NULL.
static const char *prepare_token(struct ht_decoded_token *token, const struct ht_op_shape shape, uint8_t op,
                                 uint32_t code, uint8_t joined, bool whole, uint64_t size, uint64_t extra) {
    if (!shape.valid) return ht_found("expected known ops", op);
    bool names = shape.slot && !shape.makes_object;
    bool reborn = names && !shape.ends_object && ht_functions[ht_op_function(op)].kind == HT_KIND_REALLOC;
    if (shape.makes_object && code > HT_BIRTH_EXPLICIT)
        return ht_found("expected birth codes of 0 or 1", code);
    if (whole && ((!shape.slot && code) || (!shape.size && size) || (!shape.extra && extra)))
        return "expected tokens with the values that their op has";
    if (joined > (HT_JOINED_BEFORE | HT_JOINED_AFTER) || (joined && !shape.slot) ||
        (joined & HT_JOINED_BEFORE && shape.makes_object) || (joined & HT_JOINED_AFTER && shape.ends_object))
        return ht_found("expected queries joined to events that have their object", joined);
    *token = (struct ht_decoded_token){.size = size,
                                       .extra = extra,
                                       .code = code,
                                       .op = op,
                                       .joined = joined,
                                       .makes_object = shape.makes_object,
                                       .has_slot = shape.slot,
                                       .ends_object = shape.ends_object,
                                       .reborn = reborn,
                                       .bears = shape.makes_object || reborn,
                                       .code_follows = !whole && names,
                                       .size_follows = !whole && shape.size,
                                       .extra_follows = !whole && shape.extra,
                                       .site_follows = shape.site};
    return NULL;
}

static const char *read_tokens(struct ht_event_arrays *arrays, struct ht_unpacker *unpacker,
                               const struct ht_columns *columns) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    uint8_t op[HT_TOKENS_MAX], joined[HT_TOKENS_MAX] = {0};
    uint32_t code[HT_TOKENS_MAX], whole = 0;
    uint64_t size[HT_TOKENS_MAX], extra[HT_TOKENS_MAX];
    bool found = ht_find_column(columns, HT_COLUMN_TOKEN_OP, &entry, &stored) != NULL;
    arrays->tokens = found ? entry.values : 0;
    if (arrays->tokens > HT_TOKENS_MAX) return ht_found("expected at most 256 tokens", arrays->tokens);
    const char *wrong = found ? ht_unpack_bytes(unpacker, &entry, stored, op) : NULL;
    if (!wrong) wrong = ht_column_u32(unpacker, columns, HT_COLUMN_TOKEN_CODE, code, arrays->tokens);
    if (!wrong && arrays->joins) {
        ht_find_column(columns, HT_COLUMN_JOINED, &entry, &stored);
        wrong = entry.values == arrays->tokens
                    ? ht_unpack_bytes(unpacker, &entry, stored, joined)
                    : ht_found("expected as many joined values as tokens", entry.values);
    }
    if (wrong) return wrong;
    if (ht_find_column(columns, HT_COLUMN_TOKEN_SIZE, &entry, &stored)) whole = entry.values;
    if (whole > arrays->tokens) return ht_found("expected at most as many token sizes as tokens", whole);
    wrong = ht_column_u64(unpacker, columns, HT_COLUMN_TOKEN_SIZE, size, whole);
    if (!wrong) wrong = ht_column_u64(unpacker, columns, HT_COLUMN_TOKEN_EXTRA, extra, whole);
    for (uint32_t i = 0; i < arrays->tokens && !wrong; i++)
        wrong = prepare_token(&arrays->token_table[i], arrays->shape[op[i]], op[i], code[i], joined[i],
                              i < whole, i < whole ? size[i] : 0, i < whole ? extra[i] : 0);
    if (wrong) return wrong;
    found = ht_find_column(columns, HT_COLUMN_TOKEN, &entry, &stored) != NULL;
    if ((found ? entry.values : 0) != arrays->rows)
        return ht_found("expected a token for each row", found ? entry.values : 0);
    return found ? ht_unpack_bytes(unpacker, &entry, stored, arrays->token) : NULL;
}

// How many events each token has. Four tables, as a row of equal tokens would wait for its own last sum.
static void count_tokens(const struct ht_event_arrays *arrays, uint32_t count[256]) {
    uint32_t part[4][256] = {{0}}, row = 0;
    for (; row + 4 <= arrays->rows; row += 4)
        for (unsigned i = 0; i < 4; i++) part[i][arrays->token[row + i]]++;
    for (; row < arrays->rows; row++) part[0][arrays->token[row]]++;
    for (unsigned i = 0; i < 256; i++) count[i] = part[0][i] + part[1][i] + part[2][i] + part[3][i];
}

// Reads the values of open tokens and the slots that no code has: as many as the tokens ask for.
static const char *read_values(struct ht_event_arrays *arrays, struct ht_unpacker *unpacker,
                               const struct ht_columns *columns) {
    uint32_t count[256], codes = 0, sizes = 0, extras = 0, slots = 0, across = 0;
    count_tokens(arrays, count);
    for (unsigned i = 0; i < 256; i++) {
        const struct ht_decoded_token *token = &arrays->token_table[i];
        if (count[i] == 0) continue;
        if (i >= arrays->tokens) return ht_found("expected token numbers within the list", i);
        codes += token->code_follows ? count[i] : 0;
        sizes += token->size_follows ? count[i] : 0;
        extras += token->extra_follows ? count[i] : 0;
        if (token->makes_object) slots += token->code == HT_BIRTH_EXPLICIT ? count[i] : 0;
        else if (token->has_slot && !token->code_follows) {
            slots += token->code < HT_NAMED_ACROSS ? count[i] : 0;
            across += token->code == HT_NAMED_ACROSS ? count[i] : 0;
        }
    }
    const char *wrong = ht_column_u32(unpacker, columns, HT_COLUMN_NAMED, arrays->open_code, codes);
    if (wrong) return wrong;
    for (uint32_t i = 0; i < codes; i++) {
        slots += arrays->open_code[i] < HT_NAMED_ACROSS;
        across += arrays->open_code[i] == HT_NAMED_ACROSS;
    }
    wrong = ht_column_u32(unpacker, columns, HT_COLUMN_SLOT, arrays->explicit_slot, slots);
    if (!wrong) wrong = ht_column_u32(unpacker, columns, HT_COLUMN_ACROSS, arrays->across, across);
    if (!wrong) wrong = ht_column_u64(unpacker, columns, HT_COLUMN_SIZE, arrays->open_size, sizes);
    if (!wrong) wrong = ht_column_u64(unpacker, columns, HT_COLUMN_EXTRA, arrays->open_extra, extras);
    return wrong;
}

// Numbers the threads of the section, and gives each room for its births.
static void place_births(struct ht_event_arrays *arrays) {
    struct slot_coder *slots = &arrays->slots;
    slot_coder_begin(slots);
    for (uint32_t run = 0; run < arrays->runs; run++)
        arrays->run_number[run] = slot_coder_thread(slots, arrays->run_thread[run]);
    if (slots->threads < 2) return;
    for (uint32_t run = 0, row = 0; run < arrays->runs; run++) {
        uint32_t births = 0;
        for (uint32_t end = row + arrays->run_length[run]; row < end; row++)
            births += arrays->token_table[arrays->token[row]].bears;
        slots->first[arrays->run_number[run]] += births;
    }
    uint32_t first = 0;
    for (uint32_t thread = 0; thread < slots->threads; thread++) {
        uint32_t births = slots->first[thread];
        slots->first[thread] = first;
        first += births;
    }
}

// All events from their tokens. Which token is open is as good as random: values are selected, not branched
// to.
static const char *decode_tokens(struct ht_event_arrays *arrays) {
    const uint32_t *code = arrays->open_code;
    struct slot_values explicit = {.slot = arrays->explicit_slot, .across = arrays->across};
    const uint64_t *size = arrays->open_size, *extra = arrays->open_extra;
    struct slot_coder *slots = &arrays->slots;
    place_births(arrays);
    for (uint32_t run = 0, row = 0; run < arrays->runs; run++) {
        uint32_t thread = arrays->run_number[run];
        for (uint32_t end = row + arrays->run_length[run]; row < end; row++) {
            const struct ht_decoded_token *token = &arrays->token_table[arrays->token[row]];
            arrays->op[row] = token->op;
            arrays->size[row] = token->size | (*size & -(uint64_t)token->size_follows);
            size += token->size_follows;
            arrays->extra[row] = token->extra | (*extra & -(uint64_t)token->extra_follows);
            extra += token->extra_follows;
            uint32_t slot = 0;
            if (token->makes_object) {
                slot = slot_coder_decode_birth(slots, thread, token->code, &explicit);
            } else if (token->has_slot) {
                uint32_t name = token->code_follows ? *code : token->code;
                code += token->code_follows;
                slot = slot_coder_decode_named(slots, thread, name, token->ends_object, token->reborn,
                                               &explicit);
            }
            if (token->has_slot && slot == 0) return "expected slot codes that name a slot above 0, found 0";
            arrays->slot[row] = slot;
        }
    }
    return NULL;
}

// The call sites, if the section has any: one for each event that may have one.
static const char *decode_sites(struct ht_event_arrays *arrays, struct ht_unpacker *unpacker,
                                const struct ht_columns *columns) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    arrays->has_sites = ht_find_column(columns, HT_COLUMN_SITE, &entry, &stored) != NULL;
    if (!arrays->has_sites) return NULL;
    uint32_t sites = 0;
    for (uint32_t row = 0; row < arrays->rows; row++)
        sites += arrays->token_table[arrays->token[row]].site_follows;
    const char *wrong = ht_column_u32(unpacker, columns, HT_COLUMN_SITE, arrays->stored_site, sites);
    const uint32_t *next = arrays->stored_site;
    for (uint32_t row = 0; row < arrays->rows && !wrong; row++) {
        uint32_t follows = arrays->token_table[arrays->token[row]].site_follows;
        arrays->site[row] = *next & -follows;
        next += follows;
    }
    return wrong;
}

// Where queries are joined to tokens, there are fewer of these than events.
static const char *count_rows(struct ht_event_arrays *arrays, const struct ht_columns *columns,
                              uint32_t events) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    arrays->rows = events;
    arrays->joins = ht_find_column(columns, HT_COLUMN_JOINED, &entry, &stored) != NULL;
    if (!arrays->joins || !ht_find_column(columns, HT_COLUMN_TOKEN, &entry, &stored)) return NULL;
    if (entry.values > events) return ht_found("expected a token for each row", entry.values);
    arrays->rows = entry.values;
    return NULL;
}

static void put_query(struct ht_event_arrays *arrays, uint32_t to, uint32_t row) {
    arrays->op[to] = ht_op(HT_USABLE_SIZE, HT_PLAIN);
    arrays->thread[to] = arrays->thread[row];
    arrays->slot[to] = arrays->slot[row];
    arrays->time_ns[to] = arrays->time_ns[row];
    arrays->size[to] = arrays->extra[to] = 0;
    arrays->site[to] = 0;
}

// Gives joined queries events of their own, from the last row on: none is written over before it was read.
static const char *separate_queries(struct ht_event_arrays *arrays, uint32_t events) {
    uint32_t to = arrays->rows;
    for (uint32_t row = 0; row < arrays->rows; row++) {
        uint8_t joined = arrays->token_table[arrays->token[row]].joined;
        to += (joined & HT_JOINED_BEFORE ? 1u : 0u) + (joined & HT_JOINED_AFTER ? 1u : 0u);
    }
    if (to != events) return ht_found("expected events and joined queries that add up to the rows", to);
    for (uint32_t row = arrays->rows; row-- > 0;) {
        uint8_t joined = arrays->token_table[arrays->token[row]].joined;
        if (joined & HT_JOINED_AFTER) put_query(arrays, --to, row);
        to--;
        arrays->op[to] = arrays->op[row];
        arrays->thread[to] = arrays->thread[row];
        arrays->slot[to] = arrays->slot[row];
        arrays->time_ns[to] = arrays->time_ns[row];
        arrays->size[to] = arrays->size[row];
        arrays->extra[to] = arrays->extra[row];
        arrays->site[to] = arrays->site[row];
        if (joined & HT_JOINED_BEFORE) put_query(arrays, --to, row);
    }
    arrays->rows = events;
    return NULL;
}

const char *ht_event_arrays_decode(struct ht_event_arrays *arrays, struct ht_unpacker *unpacker,
                                   const struct ht_columns *columns, uint32_t rows, uint64_t first_time_units,
                                   uint32_t time_unit_ns) {
    const char *wrong = count_rows(arrays, columns, rows);
    if (!wrong) wrong = decode_threads(arrays, unpacker, columns);
    if (!wrong) wrong = decode_times(arrays, unpacker, columns, first_time_units, time_unit_ns);
    if (!wrong) wrong = read_tokens(arrays, unpacker, columns);
    if (!wrong) wrong = read_values(arrays, unpacker, columns);
    if (!wrong) wrong = decode_tokens(arrays);
    if (!wrong) wrong = decode_sites(arrays, unpacker, columns);
    if (!wrong && arrays->joins) wrong = separate_queries(arrays, rows);
    return wrong;
}
