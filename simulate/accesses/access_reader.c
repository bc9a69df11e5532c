// SPDX-License-Identifier: Apache-2.0
#include "access_reader.h"

// Bytes for a whole token, as far as the file has them.
static void refill(struct ht_access_reader *reader) {
    size_t left = reader->filled - reader->at;
    for (size_t i = 0; i < left; i++) reader->buffer[i] = reader->buffer[reader->at + i];
    reader->offset += reader->at;
    reader->at = 0;
    reader->filled = left;
    while (!reader->ended && reader->filled < HT_ACCESS_TOKEN_BYTES_MAX) {
        size_t got = reader->read(reader->source, reader->buffer + reader->filled,
                                  sizeof reader->buffer - reader->filled);
        reader->ended = !got;
        reader->filled += got;
    }
}

// Past the end of the file: 0, and at then lies beyond filled, which ht_read_access() notices.
static inline uint8_t get(struct ht_access_reader *reader) {
    size_t at = reader->at++;
    return at < reader->filled ? reader->buffer[at] : 0;
}

static uint64_t get_varint(struct ht_access_reader *reader, bool *fits) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = get(reader);
        if (shift == 63 && byte > 1) {
            reader->too_high = byte;
            break;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    *fits = false;
    return 0;
}

static enum ht_access_kind damaged(struct ht_access *access, const char *expected, uint64_t found) {
    access->expected = expected;
    access->found = found;
    return HT_ACCESS_DAMAGED;
}

static inline enum ht_access_kind known_block(struct ht_access_reader *reader, uint8_t token,
                                              struct ht_access *access, bool *fits) {
    struct ht_access_state *state = &reader->state;
    uint32_t i = token >> 3 & (HT_ACCESS_BLOCKS - 1), step = token & 7;
    if (!state->block[i]) return damaged(access, "a block among the recent ones", token);
    state->granule[i] += step == HT_STEP_FOLLOWS ? (uint64_t)ht_from_zigzag(get_varint(reader, fits))
                                                 : (uint64_t)((int64_t)step - 3);
    access->slot = state->block[i] - 1;
    access->granule = state->granule[i];
    return HT_ACCESS_BLOCK;
}

static enum ht_access_kind new_block(struct ht_access_reader *reader, struct ht_access *access, bool *fits) {
    struct ht_access_state *state = &reader->state;
    uint64_t slot = get_varint(reader, fits), granule = get_varint(reader, fits);
    if (slot >= UINT32_MAX) return damaged(access, "a slot below 2^32 - 1", slot);
    state->block[state->next_block] = (uint32_t)slot + 1;
    state->granule[state->next_block] = granule;
    state->next_block = (state->next_block + 1) % HT_ACCESS_BLOCKS;
    access->slot = (uint32_t)slot;
    access->granule = granule;
    return HT_ACCESS_BLOCK;
}

static enum ht_access_kind in_page(struct ht_access_reader *reader, uint64_t page, struct ht_access *access) {
    uint8_t within = get(reader);
    if (within >= HT_ACCESS_PAGE_LINES) return damaged(access, "a line of a page, below 64", within);
    access->line = page * HT_ACCESS_PAGE_LINES + within;
    return HT_ACCESS_LINE;
}

static enum ht_access_kind known_page(struct ht_access_reader *reader, uint8_t token,
                                      struct ht_access *access) {
    uint64_t page = reader->state.page[token & (HT_ACCESS_PAGES - 1)];
    return page ? in_page(reader, page - 1, access) : damaged(access, "a page among the recent ones", token);
}

static enum ht_access_kind new_page(struct ht_access_reader *reader, struct ht_access *access, bool *fits) {
    struct ht_access_state *state = &reader->state;
    state->last_page += (uint64_t)ht_from_zigzag(get_varint(reader, fits));
    state->page[state->next_page] = state->last_page + 1;
    state->next_page = (state->next_page + 1) % HT_ACCESS_PAGES;
    return in_page(reader, state->last_page, access);
}

static enum ht_access_kind predicted_code(struct ht_access_reader *reader, struct ht_access *access) {
    struct ht_access_state *state = &reader->state;
    reader->code_run--;
    state->last_code_line = state->after_code_line[ht_code_prediction(state->last_code_line)];
    access->line = state->last_code_line;
    return HT_ACCESS_CODE;
}

static enum ht_access_kind code_elsewhere(struct ht_access_reader *reader, struct ht_access *access,
                                          bool *fits) {
    struct ht_access_state *state = &reader->state;
    uint64_t line = state->last_code_line + (uint64_t)ht_from_zigzag(get_varint(reader, fits));
    state->after_code_line[ht_code_prediction(state->last_code_line)] = line;
    state->last_code_line = access->line = line;
    return HT_ACCESS_CODE;
}

static enum ht_access_kind call_of(struct ht_access_reader *reader, uint8_t token, struct ht_access *access,
                                   bool *fits) {
    struct ht_recorded_call *call = &access->call;
    *call = (struct ht_recorded_call){.call = token & 7, .thread = reader->thread};
    if (call->call >= HT_ACCESS_CALLS) return damaged(access, "a call of the malloc family", token);
    call->instructions = get_varint(reader, fits);
    if (call->call == HT_ACCESS_FREE_NULL) return HT_ACCESS_CALL;
    uint64_t slot = get_varint(reader, fits);
    if (slot >= UINT32_MAX) return damaged(access, "a slot below 2^32 - 1", slot);
    call->slot = (uint32_t)slot;
    if (call->call != HT_ACCESS_FREE) call->size = get_varint(reader, fits);
    if (call->call == HT_ACCESS_CALLOC || call->call == HT_ACCESS_ALIGNED)
        call->count = get_varint(reader, fits);
    if (call->call == HT_ACCESS_REALLOC) call->from_null = get(reader);
    if (call->call == HT_ACCESS_FREE) ht_access_forget(&reader->state, call->slot);
    return HT_ACCESS_CALL;
}

static enum ht_access_kind burst(struct ht_access_reader *reader, uint8_t token, struct ht_access *access,
                                 bool *fits) {
    bool begins = token == HT_TOKEN_BURST;
    if (!reader->sampled) return damaged(access, "a token", token);
    if (reader->in_burst == begins)
        return damaged(access, begins ? "the end of the burst" : "a burst", token);
    reader->in_burst = begins;
    if (begins) return HT_ACCESS_BURST;
    access->accesses = get_varint(reader, fits);
    return HT_ACCESS_BURST_END;
}

static enum ht_access_kind end_of(struct ht_access_reader *reader, struct ht_access *access, bool *fits) {
    if (reader->in_burst) return damaged(access, "the end of the burst", HT_TOKEN_END);
    access->instructions = get_varint(reader, fits);
    access->accesses = get_varint(reader, fits);
    access->operators = get_varint(reader, fits);
    return HT_ACCESS_END;
}

static enum ht_access_kind read_token(struct ht_access_reader *reader, struct ht_access *access, bool *fits) {
    for (;;) {
        if (reader->filled - reader->at < HT_ACCESS_TOKEN_BYTES_MAX && !reader->ended) refill(reader);
        access->offset = reader->offset + reader->at;
        uint8_t token = get(reader);
        if (token < HT_TOKEN_CODE) return known_block(reader, token, access, fits);
        if (token < HT_TOKEN_PAGE) {
            reader->code_run = (token & (HT_CODE_RUN_MAX - 1)) + 1u;
            return predicted_code(reader, access);
        }
        if (token < HT_TOKEN_NEW_BLOCK) return known_page(reader, token, access);
        if (token >= HT_TOKEN_CALL && token < HT_TOKEN_CALL + 8) return call_of(reader, token, access, fits);
        switch (token) {
        case HT_TOKEN_NEW_BLOCK: return new_block(reader, access, fits);
        case HT_TOKEN_NEW_PAGE: return new_page(reader, access, fits);
        case HT_TOKEN_CODE_ELSEWHERE: return code_elsewhere(reader, access, fits);
        case HT_TOKEN_THREAD: reader->thread = (uint32_t)get_varint(reader, fits); break;
        case HT_TOKEN_BURST:
        case HT_TOKEN_BURST_END: return burst(reader, token, access, fits);
        case HT_TOKEN_END: return end_of(reader, access, fits);
        default: return damaged(access, "a token", token);
        }
        if (!*fits || reader->at > reader->filled) return HT_ACCESS_DAMAGED;
    }
}

enum ht_access_kind ht_read_access(struct ht_access_reader *reader, struct ht_access *access) {
    bool fits = true;
    if (reader->code_run) return predicted_code(reader, access);
    enum ht_access_kind kind = read_token(reader, access, &fits);
    if (reader->at > reader->filled) return HT_ACCESS_CUT;
    return fits ? kind
                : damaged(access, "a number of at most 64 bits, its last byte 0 or 1", reader->too_high);
}

const char *ht_access_header_wrong(const uint8_t *head, size_t bytes, uint64_t *offset) {
    *offset = 0;
    if (!bytes) return "expected accesses (" HT_ACCESS_MAGIC "), found an empty file";
    for (size_t i = 0; i < bytes && i < HT_ACCESS_MAGIC_BYTES; i++)
        if (head[i] != (uint8_t)HT_ACCESS_MAGIC[i])
            return "expected accesses (" HT_ACCESS_MAGIC
                   "), as heaptape record --accesses writes them, found another file";
    *offset = bytes;
    return bytes < HT_ACCESS_HEADER_BYTES ? "expected a header of 24 bytes, found the end of the file" : NULL;
}
