// SPDX-License-Identifier: Apache-2.0
#include "access_writer.h"

void ht_access_forget_recent(struct ht_access_writer *writer) {
    writer->new_places += HT_RECENT;
    writer->tokens += HT_RECENT;
}

void ht_access_flush(struct ht_access_writer *writer) {
    writer->write(writer->buffer, writer->used);
    writer->used = 0;
}

static inline void put(struct ht_access_writer *writer, uint8_t byte) {
    writer->buffer[writer->used++] = byte;
}

static void put_varint(struct ht_access_writer *writer, uint64_t value) {
    for (; value >= 0x80; value >>= 7) put(writer, (uint8_t)(value | 0x80));
    put(writer, (uint8_t)value);
}

static void put_code_run(struct ht_access_writer *writer) {
    if (writer->code_run) put(writer, (uint8_t)(HT_TOKEN_CODE | (writer->code_run - 1)));
    writer->code_run = 0;
}

// Room for one token, behind the run of predicted lines that came before it.
static inline void begin(struct ht_access_writer *writer) {
    writer->tokens++;
    if (writer->used + HT_ACCESS_TOKEN_BYTES_MAX > sizeof writer->buffer) ht_access_flush(writer);
    put_code_run(writer);
}

void ht_write_block_access(struct ht_access_writer *writer, uint32_t slot, uint64_t granule) {
    struct ht_access_state *state = &writer->state;
    begin(writer);
    uint8_t *place = &writer->block_place[slot % HT_ACCESS_PLACES];
    uint32_t i = *place;
    if (state->block[i] == slot + 1) {
        int64_t step = (int64_t)(granule - state->granule[i]);
        bool near = step >= -3 && step <= 3;
        put(writer, (uint8_t)(HT_TOKEN_BLOCK | i << 3 | (near ? (uint32_t)(step + 3) : HT_STEP_FOLLOWS)));
        if (!near) put_varint(writer, ht_zigzag(step));
        state->granule[i] = granule;
        return;
    }
    put(writer, HT_TOKEN_NEW_BLOCK);
    put_varint(writer, slot);
    put_varint(writer, granule);
    *place = (uint8_t)state->next_block;
    state->block[state->next_block] = slot + 1;
    state->granule[state->next_block] = granule;
    state->next_block = (state->next_block + 1) % HT_ACCESS_BLOCKS;
}

void ht_write_line_access(struct ht_access_writer *writer, uint64_t line) {
    struct ht_access_state *state = &writer->state;
    uint64_t page = line / HT_ACCESS_PAGE_LINES;
    uint8_t within = line % HT_ACCESS_PAGE_LINES;
    begin(writer);
    uint8_t *place = &writer->page_place[page % HT_ACCESS_PLACES];
    uint32_t i = *place;
    if (state->page[i] == page + 1) {
        put(writer, (uint8_t)(HT_TOKEN_PAGE | i));
        put(writer, within);
        return;
    }
    put(writer, HT_TOKEN_NEW_PAGE);
    put_varint(writer, ht_zigzag((int64_t)(page - state->last_page)));
    put(writer, within);
    *place = (uint8_t)state->next_page;
    state->last_page = page;
    state->page[state->next_page] = page + 1;
    state->next_page = (state->next_page + 1) % HT_ACCESS_PAGES;
}

void ht_write_code_line(struct ht_access_writer *writer, uint64_t line) {
    struct ht_access_state *state = &writer->state;
    uint64_t *prediction = &state->after_code_line[ht_code_prediction(state->last_code_line)];
    if (*prediction == line) {
        writer->tokens++;
        if (++writer->code_run == HT_CODE_RUN_MAX) begin(writer);
    } else {
        begin(writer);
        put(writer, HT_TOKEN_CODE_ELSEWHERE);
        put_varint(writer, ht_zigzag((int64_t)(line - state->last_code_line)));
        *prediction = line;
    }
    state->last_code_line = line;
}

void ht_write_call(struct ht_access_writer *writer, const struct ht_recorded_call *call) {
    begin(writer);
    put(writer, (uint8_t)((unsigned)HT_TOKEN_CALL | (unsigned)call->call));
    put_varint(writer, call->instructions);
    if (call->call == HT_ACCESS_FREE_NULL) return;
    put_varint(writer, call->slot);
    if (call->call != HT_ACCESS_FREE) put_varint(writer, call->size);
    if (call->call == HT_ACCESS_CALLOC || call->call == HT_ACCESS_ALIGNED) put_varint(writer, call->count);
    if (call->call == HT_ACCESS_REALLOC) put(writer, call->from_null);
    if (call->call == HT_ACCESS_FREE) ht_access_forget(&writer->state, call->slot);
}

void ht_write_thread(struct ht_access_writer *writer, uint32_t thread) {
    begin(writer);
    put(writer, HT_TOKEN_THREAD);
    put_varint(writer, thread);
}

void ht_write_burst(struct ht_access_writer *writer) {
    begin(writer);
    put(writer, HT_TOKEN_BURST);
}

void ht_write_burst_end(struct ht_access_writer *writer, uint64_t accesses) {
    begin(writer);
    put(writer, HT_TOKEN_BURST_END);
    put_varint(writer, accesses);
}

void ht_write_end(struct ht_access_writer *writer, uint64_t instructions, uint64_t accesses,
                  uint64_t operators) {
    begin(writer);
    put(writer, HT_TOKEN_END);
    put_varint(writer, instructions);
    put_varint(writer, accesses);
    put_varint(writer, operators);
    ht_access_flush(writer);
}
