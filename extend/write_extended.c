#include "write_extended.h"

#include <jansson.h>
#include <stdlib.h>

#include "event_bytes.h"
#include "json_values.h"
#include "merge_result.h"
#include "site_reader.h"
#include "slot_table.h"
#include "talk.h"
#include "trace_json.h"

struct block {
    uint64_t bytes;
    uint32_t owner;
    bool live;
};

struct writing {
    struct ht_trace_reader *reader;
    struct ht_trace_writer *writer;
    struct ht_op_shape shape[256];
    struct slot_table blocks;  // of struct block
    uint64_t op_count[256];
    uint64_t live_bytes, live_objects;
    struct merge_totals totals;
    struct ht_progress progress;
    bool quiet;
};

static int no_memory(const char *output, struct ht_error *error) {
    return ht_error_memory(error, output, "cannot write the extended trace");
}

static void count_live(struct writing *w, struct block *block, const struct ht_op_shape *shape,
                       uint64_t bytes) {
    if (block->live) w->live_bytes -= block->bytes;
    w->live_objects -= block->live;
    block->live = !shape->ends_object;
    block->bytes = bytes;
    if (!block->live) return;
    w->live_bytes += bytes;
    w->live_objects++;
    w->totals.allocated_bytes += bytes;
    if (w->live_bytes > w->totals.peak_live_bytes) w->totals.peak_live_bytes = w->live_bytes;
    if (w->live_objects > w->totals.peak_live_objects) w->totals.peak_live_objects = w->live_objects;
}

static void put_event(struct writing *w, const struct ht_events *events, uint32_t row) {
    uint8_t op = events->op[row];
    uint32_t slot = events->slot[row], thread = events->thread[row];
    const struct ht_op_shape *shape = &w->shape[op];
    struct block *block = (struct block *)w->blocks.items + slot;
    if (shape->makes_object) block->owner = thread;
    if (events->site && events->site[row]) ht_trace_put_site(w->writer, events->site[row]);
    ht_trace_put_event(w->writer, op, thread, events->time_ns[row], slot, slot && block->owner == thread,
                       events->size[row], events->extra[row]);
    w->op_count[op]++;
    if (slot > w->totals.slots) w->totals.slots = slot;
    if (ht_op_function(op) == HT_INHERIT) {
        w->totals.inherited_objects++;
        w->totals.inherited_bytes += events->size[row];
    }
    if (shape->slot && !shape->query) count_live(w, block, shape, ht_event_bytes(events, row));
}

static int put_events(struct writing *w, const char *output, struct ht_error *error) {
    uint64_t all = ht_trace_records(w->reader), done = 0;
    for (size_t i = 0; i < ht_trace_sections(w->reader) && !ht_trace_failed(w->writer); i++) {
        struct ht_events events;
        if (ht_trace_section(w->reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(w->reader, i, &events, error)) return -1;
        if (!slot_table_reach(&w->blocks, events.slot, events.rows)) return no_memory(output, error);
        for (uint32_t row = 0; row < events.rows; row++) put_event(w, &events, row);
        done += events.rows;
        if (!w->quiet && ht_progress_due(&w->progress))
            ht_progress_draw(&w->progress, "%3.0f %%%s", 100.0 * (double)done / (double)all,
                             ht_progress_left(&w->progress, done, all));
    }
    return 0;
}

static int put_facts(struct writing *w, const struct ht_trace_facts *facts, struct ht_error *error) {
    struct ht_site_table sites;
    for (size_t i = 0; i < facts->samples_count; i++) ht_trace_put_sample(w->writer, &facts->samples[i]);
    for (size_t i = 0; i < facts->residency_count; i++)
        ht_trace_put_residency(w->writer, &facts->residency[i]);
    for (size_t i = 0; i < facts->steps_count; i++) ht_trace_put_residency_step(w->writer, &facts->steps[i]);
    if (ht_trace_site_table(w->reader, &sites, error)) return -1;
    if (sites.sites_count) ht_trace_put_site_table(w->writer, &sites);
    ht_site_table_free(&sites);
    return 0;
}

// The totals that the extension has before it is read, and what has been counted.
static json_t *totals_of(struct writing *w, const struct ht_trace_facts *facts, struct ht_error *error) {
    static const char *const counted[] = {"events",
                                          "records",
                                          "ops",
                                          "threads",
                                          "slots",
                                          "peak_live_bytes",
                                          "peak_live_objects",
                                          "end_live_bytes",
                                          "end_live_objects",
                                          "inherited_objects",
                                          "inherited_bytes",
                                          "foreign_frees",
                                          "foreign_queries",
                                          "failed_calls"};
    const struct ht_raw_log none = {.fd = -1};
    struct merge_totals *totals = &w->totals;
    totals->threads = facts->threads_count;
    totals->end_live_bytes = w->live_bytes;
    totals->end_live_objects = w->live_objects;
    for (unsigned op = 0; op < 256; op++) {
        unsigned variant = ht_op_variant((uint8_t)op);
        totals->records += w->op_count[op];
        if (!ht_op_is_call((uint8_t)op)) continue;
        totals->events += w->op_count[op];
        totals->ops[ht_op_function((uint8_t)op)] += w->op_count[op];
        if (variant == HT_FAILED) totals->failed_calls += w->op_count[op];
        if (variant == HT_FOREIGN) totals->foreign_frees += w->op_count[op];
    }
    json_t *known = json_parsed(ht_trace_totals_json(w->reader, error));
    json_t *now = trace_json_totals(totals, &none);
    for (size_t i = 0; known && i < sizeof counted / sizeof *counted; i++)
        if (json_object_get(now, counted[i]))
            json_object_set(known, counted[i], json_object_get(now, counted[i]));
    json_decref(now);
    return known;
}

static int write_all_of(struct writing *w, const char *output, struct ht_trace_facts *facts, json_t **totals,
                        struct ht_error *error) {
    if (put_events(w, output, error) || ht_trace_facts(w->reader, facts, error) || put_facts(w, facts, error))
        return -1;
    *totals = totals_of(w, facts, error);
    return *totals ? 0 : no_memory(output, error);
}

int write_extended(struct ht_trace_reader *reader, const char *output, bool quiet,
                   struct extended_totals *totals, struct ht_error *error) {
    struct writing w = {.reader = reader, .blocks = slot_table_of(sizeof(struct block)), .quiet = quiet};
    struct ht_trace_facts facts = {0};
    json_t *json = NULL;
    char *context = ht_trace_context_json(reader, error);
    if (!context) return -1;
    w.writer = ht_trace_create(output, ht_trace_time_unit_ns(reader), 3, error);
    if (!w.writer) {
        free(context);
        return -1;
    }
    ht_trace_put_context(w.writer, context);
    free(context);
    for (unsigned op = 0; op < 256; op++) w.shape[op] = ht_op_shape((uint8_t)op);
    ht_progress_start(&w.progress);
    int status = write_all_of(&w, output, &facts, &json, error);
    ht_progress_end(&w.progress);
    if (status) ht_trace_abandon(w.writer);
    else
        status =
            trace_json_finish(w.writer, facts.threads, facts.threads_count, json, &totals->file_bytes, error);
    totals->events = w.totals.events;
    totals->end_live_bytes = w.live_bytes;
    totals->peak_live_bytes = w.totals.peak_live_bytes;
    ht_trace_facts_free(&facts);
    slot_table_free(&w.blocks);
    return status;
}
