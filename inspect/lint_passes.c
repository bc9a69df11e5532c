// SPDX-License-Identifier: Apache-2.0
#include "lint_passes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "all_bytes.h"
#include "grow.h"
#include "inheritance.h"
#include "live_ranges.h"
#include "ops.h"
#include "raw_state.h"
#include "site_table.h"
#include "slot_table.h"
#include "streams.h"
#include "trace_json.h"

// ---- a trace ----

// One event. Returns what is wrong with the trace, or NULL.
static const char *check_event(struct lint *lint, const struct ht_op_shape *shape, struct lint_block *block,
                               const struct lint_call *call) {
    if (!ht_functions[call->function].pseudo) lint_check_call(lint, call);
    if (!shape->slot) return NULL;
    if (shape->makes_object == block->live)
        return ht_found(block->live ? "expected an allocation into a free slot"
                                    : "expected a slot with a live object",
                        call->slot);
    if (call->function == HT_DROP && !lint->drops_expected)
        lint_found(lint, LINT_UNSEEN_FREE, call, block, 0);
    if (shape->query) return NULL;
    if (block->live) lint_check_end(lint, call, block, 0);
    if (shape->ends_object) block->live = false;
    else *block = lint_block_of(call);
    return NULL;
}

static int check_section(struct lint *lint, const struct ht_events *events, const struct ht_op_shape *shape,
                         struct lint_block *blocks, size_t sites, const char *path, uint64_t offset,
                         struct ht_error *error) {
    for (uint32_t row = 0; row < events->rows; row++) {
        uint8_t op = events->op[row];
        struct lint_call call = {.event = events->first_event + row,
                                 .time_ns = events->time_ns[row],
                                 .size = events->size[row],
                                 .extra = events->extra[row],
                                 .slot = events->slot[row],
                                 .thread = events->thread[row],
                                 .function = (uint8_t)ht_op_function(op),
                                 .variant = (uint8_t)ht_op_variant(op)};
        const char *wrong = check_event(lint, &shape[op], &blocks[call.slot], &call);
        if (!wrong && events->site && events->site[row] > sites)
            wrong = ht_found("expected a call site that the sites section has", events->site[row]);
        if (wrong) return ht_error_input(error, path, offset, "event %" PRIu64 ": %s", call.event, wrong);
    }
    return 0;
}

int lint_trace(struct lint *lint, struct ht_trace_reader *reader, const char *path, struct ht_error *error) {
    struct ht_op_shape shape[256];
    struct slot_table blocks = slot_table_of(sizeof(struct lint_block));
    int status = trace_json_drops_expected(reader, &lint->drops_expected, error);
    if (!status) status = trace_json_sliced(reader, &lint->sliced, error);
    bool memory = true;
    struct ht_site_table table;
    size_t sites = SIZE_MAX;
    if (!status && !(status = ht_trace_site_table(reader, &table, error))) {
        if (!ht_trace_truncated(reader)) sites = table.sites_count;
        ht_site_table_free(&table);
    }
    for (unsigned op = 0; op < 256; op++) shape[op] = ht_op_shape((uint8_t)op);
    for (size_t i = 0; i < ht_trace_sections(reader) && !status && memory; i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        status = ht_trace_events(reader, i, &events, error);
        if (status || !(memory = slot_table_reach(&blocks, events.slot, events.rows))) break;
        status = check_section(lint, &events, shape, blocks.items, sites, path,
                               ht_trace_section(reader, i)->offset, error);
    }
    const struct lint_block *block = blocks.items;
    for (uint64_t slot = 1; (slot = slot_table_next(&blocks, slot)) < blocks.room && !status && memory;
         slot++)
        if (block[slot].live) memory = lint_leak(lint, &block[slot], slot);
    slot_table_free(&blocks);
    if (memory || status) return status;
    return ht_error_memory(error, path, "cannot follow the heap");
}

// ---- a raw log ----

enum { PADDING_BYTES = 64 };

// A realloc whose first half has been seen.
struct half_realloc {
    bool open, had_block;
    struct lint_call call;
    struct lint_block block;
};

struct raw_pass {
    struct lint *lint;
    const struct ht_raw_log *log;
    struct live_ranges live;
    struct map64 freed;         // address -> when it was freed, plus one
    struct half_realloc *half;  // by input
    size_t inputs;
    bool no_memory;
    const struct merge_observed *now;  // the record under way
};

// ---- where a record is ----

// Decodes the record's chunk once more, up to the record.
static void locate(void *context, struct lint_call *call) {
    const struct raw_pass *pass = context;
    const struct stream *stream = pass->now->stream;
    const struct ht_raw_record *wanted = pass->now->record;
    const struct stream_chunk *place = &stream->chunk[stream->next_chunk - 1];
    struct ht_raw_chunk chunk;
    struct ht_raw_record record;
    struct ht_raw_decoder decoder;
    call->offset = place->offset;
    if (place->bytes <= sizeof chunk) return;
    uint8_t *bytes = calloc(1, place->bytes + PADDING_BYTES);
    if (!bytes || !ht_read_at(pass->log->fd, bytes, place->bytes, place->offset)) {
        free(bytes);
        return;
    }
    memcpy(&chunk, bytes, sizeof chunk);
    ht_raw_decode_chunk(&decoder, &chunk, bytes);
    decoder.end = bytes + place->bytes;
    decoder.tick_stamps = stream->decoder.tick_stamps;
    decoder.end_stamp = stream->decoder.end_stamp;
    decoder.second_stamp = stream->decoder.second_stamp;
    const uint8_t *at = decoder.at;
    while (ht_raw_decode(&decoder, &record) > 0) {
        if (record.op == wanted->op && record.stamp == wanted->stamp && record.address == wanted->address) {
            call->offset += (uint64_t)(at - bytes);
            break;
        }
        at = decoder.at;
    }
    free(bytes);
}

// ---- one record ----

static struct lint_call call_of(const struct merge_observed *observed) {
    const struct ht_raw_record *record = observed->record;
    uint8_t function = (uint8_t)ht_raw_function(record);
    bool counted = function == HT_CALLOC || function == HT_REALLOCARRAY;
    return (struct lint_call){.address = record->address,
                              .time_ns = observed->time_ns,
                              .size = record->size,
                              .extra = counted ? record->count : record->alignment,
                              .thread = observed->thread,
                              .function = function,
                              .variant = record->failed ? HT_FAILED : HT_PLAIN};
}

static uint64_t length_of(const struct lint_block *block) { return block->bytes ? block->bytes : 1; }

static const struct live_range *block_at(const struct raw_pass *pass, uint64_t address) {
    const struct live_range *range = live_ranges_below(&pass->live, address);
    return range && range->address == address ? range : NULL;
}

static void add(struct raw_pass *pass, const struct lint_call *call, const struct lint_block *block) {
    const struct live_range *below = live_ranges_below(&pass->live, call->address);
    if (below && below->address == call->address) {
        lint_found(pass->lint, LINT_UNSEEN_FREE, call, &below->block, below->address);
        live_ranges_remove(&pass->live, call->address);
        below = call->address ? live_ranges_below(&pass->live, call->address - 1) : NULL;
    }
    if (below && call->address - below->address < length_of(&below->block))
        lint_found(pass->lint, LINT_OVERLAP, call, &below->block, below->address);
    const struct live_range *above = live_ranges_above(&pass->live, call->address);
    if (above && above->address - call->address < length_of(block))
        lint_found(pass->lint, LINT_OVERLAP, call, &above->block, above->address);
    size_t freed = map64_find(&pass->freed, call->address);
    if (map64_has(&pass->freed, freed)) map64_remove_at(&pass->freed, freed);
    if (!live_ranges_add(&pass->live, call->address, block)) pass->no_memory = true;
}

static void remove_block(struct raw_pass *pass, const struct lint_call *call) {
    // For want of memory it may not be known.
    if (block_at(pass, call->address)) live_ranges_remove(&pass->live, call->address);
    if (!map64_put(&pass->freed, call->address, call->time_ns + 1)) pass->no_memory = true;
}

// An address that is no live block's goes back: what is it? Returns false if nothing is known of it.
static bool explain(struct raw_pass *pass, const struct lint_call *call) {
    const struct live_range *below = live_ranges_below(&pass->live, call->address);
    if (below && call->address - below->address < length_of(&below->block)) {
        lint_found(pass->lint, LINT_INSIDE_FREE, call, &below->block, below->address);
        return true;
    }
    size_t freed = map64_find(&pass->freed, call->address);
    if (!map64_has(&pass->freed, freed)) return false;
    struct lint_block block = {.time_ns = pass->freed.entry[freed].value - 1};
    lint_found(pass->lint, LINT_DOUBLE_FREE, call, &block, call->address);
    return true;
}

static void take_free(struct raw_pass *pass, struct lint_call *call) {
    const struct live_range *range = block_at(pass, call->address);
    bool known = range || explain(pass, call);
    if (!known) call->variant = HT_FOREIGN;
    lint_check_call(pass->lint, call);
    if (!range) return;
    lint_check_end(pass->lint, call, &range->block, range->address);
    remove_block(pass, call);
}

static struct half_realloc *half_of(struct raw_pass *pass, uint32_t input) {
    if (ht_grow(&pass->half, &pass->inputs, input + 1, sizeof *pass->half)) return &pass->half[input];
    pass->no_memory = true;
    return NULL;
}

// The realloc never ended, or failed: its old block is still there.
static void restore_half(struct raw_pass *pass, struct half_realloc *half) {
    if (half->open && half->had_block && !block_at(pass, half->call.address) &&
        !live_ranges_add(&pass->live, half->call.address, &half->block))
        pass->no_memory = true;
    half->open = false;
}

static void begin_realloc(struct raw_pass *pass, struct half_realloc *half, const struct lint_call *call,
                          bool unseen) {
    const struct live_range *range = block_at(pass, call->address);
    *half = (struct half_realloc){.open = true, .had_block = range != NULL, .call = *call};
    if (!range) {
        if (unseen || !explain(pass, call)) half->call.variant = HT_FOREIGN;
        return;
    }
    half->block = range->block;
    live_ranges_remove(&pass->live, call->address);
}

static void drop_realloc(void *context, uint32_t input) {
    struct raw_pass *pass = context;
    struct half_realloc *half = half_of(pass, input);
    if (half) restore_half(pass, half);
}

static void end_realloc(struct raw_pass *pass, struct half_realloc *half, const struct ht_raw_record *record,
                        const struct lint_call *end) {
    struct lint_call call = half->call;
    bool released = record->failed == HT_FAILED_RELEASED;
    call.time_ns = end->time_ns;
    if (released) call.variant = half->had_block ? HT_RELEASED : call.variant;
    else if (record->failed) call.variant = HT_FAILED;
    lint_check_call(pass->lint, &call);
    if (record->failed && !released) {
        restore_half(pass, half);
        return;
    }
    if (half->had_block) lint_check_end(pass->lint, &call, &half->block, call.address);
    if (half->had_block && (released || record->address != call.address) &&
        !map64_put(&pass->freed, call.address, half->call.time_ns + 1))
        pass->no_memory = true;
    half->open = false;
    if (released) return;
    call.address = record->address;
    struct lint_block block = lint_block_of(&call);
    add(pass, &call, &block);
}

static void take_record(void *context, const struct merge_observed *observed) {
    struct raw_pass *pass = context;
    const struct ht_raw_record *record = observed->record;
    if (record->op == HT_RAW_LONG) return;
    struct lint_call call = call_of(observed);
    struct half_realloc *half = NULL;
    pass->now = observed;
    switch (record->op) {
    case HT_RAW_FREE:
        if (observed->unseen) remove_block(pass, &call);
        else take_free(pass, &call);
        return;
    case HT_RAW_QUERY: lint_check_call(pass->lint, &call); return;
    case HT_RAW_FREE_NULL:
        call.variant = HT_NULL;
        lint_check_call(pass->lint, &call);
        return;
    case HT_RAW_REALLOC_BEGIN:
        if ((half = half_of(pass, observed->input))) begin_realloc(pass, half, &call, observed->unseen);
        return;
    case HT_RAW_REALLOC_END:
        if ((half = half_of(pass, observed->input))) end_realloc(pass, half, record, &call);
        return;
    case HT_RAW_REALLOC_NULL:
        if (!record->failed) call.variant = HT_NULL;
        break;
    default: break;
    }
    lint_check_call(pass->lint, &call);
    if (record->failed) return;
    struct lint_block block = lint_block_of(&call);
    add(pass, &call, &block);
}

// ---- the pass ----

static void take_inherited(struct raw_pass *pass, const struct live_blocks *inherited) {
    for (size_t i = 0; i < inherited->count; i++) {
        const struct lint_block block = {.bytes = inherited->block[i].bytes,
                                         .function = HT_INHERIT,
                                         .alignment = LINT_NO_ALIGNMENT,
                                         .live = true};
        if (!live_ranges_add(&pass->live, inherited->block[i].address, &block)) pass->no_memory = true;
    }
}

static void take_leaks(struct raw_pass *pass) {
    const struct live_range *range = live_ranges_below(&pass->live, 0);
    if (!range) range = live_ranges_above(&pass->live, 0);
    for (; range; range = live_ranges_above(&pass->live, range->address))
        if (!lint_leak(pass->lint, &range->block, range->address)) pass->no_memory = true;
}

int lint_raw(struct lint *lint, const struct ht_raw_log *log, char *warning, struct ht_raw_damage *damage,
             const struct merge_progress *progress, struct ht_error *error) {
    struct raw_pass pass = {.lint = lint, .log = log};
    struct merge_observer observer = {take_record, drop_realloc, &pass};
    struct live_blocks inherited = {0};
    if (consumed_log_check(log, error)) return -1;
    bool ready = map64_init(&pass.freed);
    lint->locate = locate;
    lint->locate_context = &pass;
    int status = inheritance_find(log, NULL, &inherited, warning, progress, error);
    if (!status && ready) {
        take_inherited(&pass, &inherited);
        status = merge_observe(log, &inherited, &observer, damage, progress, error);
    }
    if (!status) take_leaks(&pass);
    lint->locate = NULL;
    live_blocks_free(&inherited);
    live_ranges_free(&pass.live);
    map64_free(&pass.freed);
    free(pass.half);
    if (status || (ready && !pass.no_memory)) return status;
    return ht_error_memory(error, log->path, "cannot follow the heap");
}
