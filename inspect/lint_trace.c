// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "lint_passes.h"
#include "ops.h"
#include "site_reader.h"
#include "slot_table.h"
#include "trace_json.h"

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
