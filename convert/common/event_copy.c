// SPDX-License-Identifier: Apache-2.0
#include "event_copy.h"

#include <inttypes.h>

#include "raw_reader.h"
#include "slot_table.h"
#include "talk.h"
#include "trace_facts.h"
#include "trace_json.h"

struct block {
    uint64_t bytes;
    uint32_t owner;
    bool live;
};

struct copying {
    struct event_copy *copy;
    struct ht_op_shape shape[256];
    struct slot_table blocks;  // of struct block
    uint64_t op_count[256];
    uint64_t live_bytes, live_objects;
    struct ht_progress progress;
};

static void count_live(struct copying *c, struct block *block, const struct ht_op_shape *shape,
                       uint64_t bytes) {
    struct merge_totals *totals = &c->copy->totals;
    if (block->live) c->live_bytes -= block->bytes;
    c->live_objects -= block->live;
    block->live = !shape->ends_object;
    block->bytes = bytes;
    if (!block->live) return;
    c->live_bytes += bytes;
    c->live_objects++;
    totals->allocated_bytes += bytes;
    if (c->live_bytes > totals->peak_live_bytes) totals->peak_live_bytes = c->live_bytes;
    if (c->live_objects > totals->peak_live_objects) totals->peak_live_objects = c->live_objects;
}

// Returns what is wrong with the event, or NULL.
static const char *check_event(const struct copying *c, const struct ht_events *events, uint32_t row) {
    const struct ht_op_shape *shape = &c->shape[events->op[row]];
    uint32_t slot = events->slot[row];
    if (events->thread[row] >= c->copy->facts->threads_count)
        return ht_found("expected a thread that the threads section has", events->thread[row]);
    if (!shape->slot) return NULL;
    const struct block *block = (struct block *)c->blocks.items + slot;
    if (shape->makes_object == block->live)
        return ht_found(block->live ? "expected an allocation into a free slot"
                                    : "expected a slot with a live object",
                        slot);
    return NULL;
}

static void put_event(struct copying *c, const struct ht_events *events, uint32_t row) {
    uint8_t op = events->op[row];
    uint32_t slot = events->slot[row], thread = events->thread[row];
    const struct ht_op_shape *shape = &c->shape[op];
    struct block *block = (struct block *)c->blocks.items + slot;
    struct merge_totals *totals = &c->copy->totals;
    if (shape->makes_object) block->owner = thread;
    if (events->site && events->site[row]) ht_trace_put_site(c->copy->writer, events->site[row]);
    ht_trace_put_event(c->copy->writer, op, thread, events->time_ns[row], slot,
                       slot && block->owner == thread, events->size[row], events->extra[row]);
    c->op_count[op]++;
    if (shape->control) {
        const struct ht_control_call call = ht_control_of_event(op, events->size[row], events->extra[row]);
        ht_control_counts_add(&totals->controls, &call, 1);
    }
    totals->duration_ns = events->time_ns[row];
    if (slot > totals->slots) totals->slots = slot;
    if (ht_op_function(op) == HT_INHERIT) {
        totals->inherited_objects++;
        totals->inherited_bytes += events->size[row];
    }
    if (shape->slot && !shape->query) count_live(c, block, shape, ht_event_bytes(events, row));
}

static int put_section(struct copying *c, size_t section, struct ht_error *error) {
    struct event_copy *copy = c->copy;
    struct ht_events events;
    const char *path = ht_trace_path(copy->reader);
    if (ht_trace_events(copy->reader, section, &events, error)) return -1;
    if (copy->change) copy->change(copy->context, &events);
    if (!slot_table_reach(&c->blocks, events.slot, events.rows))
        return ht_error_memory(error, path, "cannot copy the trace");
    for (uint32_t row = 0; row < events.rows; row++) {
        const char *wrong = check_event(c, &events, row);
        if (wrong)
            return ht_error_input(error, path, ht_trace_section(copy->reader, section)->offset,
                                  "event %" PRIu64 ": %s", events.first_event + row, wrong);
        put_event(c, &events, row);
    }
    return 0;
}

static int put_sections(struct copying *c, struct ht_error *error) {
    struct ht_trace_reader *reader = c->copy->reader;
    uint64_t all = ht_trace_records(reader), done = 0;
    for (size_t i = 0; i < ht_trace_sections(reader) && !ht_trace_failed(c->copy->writer); i++) {
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (put_section(c, i, error)) return -1;
        done += ht_trace_section(reader, i)->rows;
        if (!c->copy->quiet && ht_progress_due(&c->progress))
            ht_progress_draw(&c->progress, "%3.0f %%%s", 100.0 * (double)done / (double)all,
                             ht_progress_left(&c->progress, done, all));
    }
    return 0;
}

static void fill_totals(struct copying *c) {
    struct merge_totals *totals = &c->copy->totals;
    totals->threads = c->copy->facts->threads_count;
    totals->end_live_bytes = c->live_bytes;
    totals->end_live_objects = c->live_objects;
    for (unsigned op = 0; op < 256; op++) {
        unsigned variant = ht_op_variant((uint8_t)op);
        totals->records += c->op_count[op];
        if (!ht_op_is_call((uint8_t)op)) continue;
        totals->events += c->op_count[op];
        totals->ops[ht_op_function((uint8_t)op)] += c->op_count[op];
        if (variant == HT_FAILED) totals->failed_calls += c->op_count[op];
        if (variant == HT_FOREIGN) totals->foreign_frees += c->op_count[op];
    }
}

int event_copy_run(struct event_copy *copy, struct ht_error *error) {
    struct copying c = {.copy = copy, .blocks = slot_table_of(sizeof(struct block))};
    copy->totals = (struct merge_totals){0};
    for (unsigned op = 0; op < 256; op++) c.shape[op] = ht_op_shape((uint8_t)op);
    ht_progress_start(&c.progress);
    int status = put_sections(&c, error);
    ht_progress_end(&c.progress);
    fill_totals(&c);
    slot_table_free(&c.blocks);
    return status;
}

void event_copy_put_facts(const struct event_copy *copy) {
    const struct ht_trace_facts *facts = copy->facts;
    for (size_t i = 0; i < facts->samples_count; i++) ht_trace_put_sample(copy->writer, &facts->samples[i]);
    for (size_t i = 0; i < facts->residency_count; i++)
        ht_trace_put_residency(copy->writer, &facts->residency[i]);
    for (size_t i = 0; i < facts->steps_count; i++)
        ht_trace_put_residency_step(copy->writer, &facts->steps[i]);
}

void event_copy_put_totals(const struct event_copy *copy, json_t *totals) {
    const struct ht_raw_log none = {.fd = -1};
    json_t *now = trace_json_totals(&copy->totals, &none);
    totals_put_counted(totals, now);
    json_decref(now);
}
