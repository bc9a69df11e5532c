// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "site_table.h"

#define PUBLIC __attribute__((visibility("default")))

struct heaptape_reader {
    struct ht_trace_reader *trace;  // NULL where opening failed
    char *path, *context, *totals;
    size_t section;  // the next one
    struct ht_events events;
    uint32_t row;  // the next one of these events
    struct ht_op_shape shapes[256];
    struct heaptape_event event;
    struct ht_site_table sites;
    bool has_sites;  // they have been read
    bool failed;
    struct ht_error error;
};

PUBLIC struct heaptape_reader *heaptape_open(const char *path) {
    struct heaptape_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    for (unsigned op = 0; op < 256; op++) reader->shapes[op] = ht_op_shape((uint8_t)op);
    reader->path = strdup(path);
    if (!reader->path) {
        free(reader);
        return NULL;
    }
    reader->trace = ht_trace_open(path, &reader->error);
    reader->failed = !reader->trace;
    return reader;
}

PUBLIC void heaptape_close(struct heaptape_reader *reader) {
    if (!reader) return;
    ht_trace_close(reader->trace);
    ht_site_table_free(&reader->sites);
    free(reader->path);
    free(reader->context);
    free(reader->totals);
    free(reader);
}

// Who makes a table of slots or threads is not made to ask for gigabytes by a damaged file.
static int check_numbers(struct heaptape_reader *reader, const struct ht_section_place *place) {
    uint64_t last_event = reader->events.first_event + reader->events.rows - 1;
    uint32_t slot = 0, thread = 0;
    for (uint32_t row = 0; row < reader->events.rows; row++) {
        if (reader->events.slot[row] > slot) slot = reader->events.slot[row];
        if (reader->events.thread[row] > thread) thread = reader->events.thread[row];
    }
    if (ht_slot_is_due(slot, last_event) && ht_thread_is_due(thread, last_event)) return 0;
    return ht_error_input(&reader->error, reader->path, place->offset,
                          "expected slot and thread numbers without a gap, found slot %" PRIu32
                          " and thread %" PRIu32,
                          slot, thread);
}

// Decodes the next section that has events. False after the last one, and where reading failed.
static bool next_section(struct heaptape_reader *reader) {
    while (reader->section < ht_trace_sections(reader->trace)) {
        size_t i = reader->section++;
        const struct ht_section_place *place = ht_trace_section(reader->trace, i);
        if (place->kind != HT_SECTION_EVENTS || !place->rows) continue;
        reader->row = 0;
        reader->failed = ht_trace_events(reader->trace, i, &reader->events, &reader->error) ||
                         check_numbers(reader, place);
        return !reader->failed;
    }
    reader->events.rows = reader->row = 0;
    if (ht_trace_truncated(reader->trace)) {
        ht_trace_report_truncated(reader->trace, &reader->error);
        reader->failed = true;
    }
    return false;
}

static enum heaptape_effect effect_of(struct ht_op_shape shape) {
    if (!shape.slot || shape.query) return HEAPTAPE_NONE;
    if (shape.makes_object) return HEAPTAPE_MAKES;
    return shape.ends_object ? HEAPTAPE_ENDS : HEAPTAPE_RESIZES;
}

static struct heaptape_event event_at(const struct heaptape_reader *reader, uint32_t row) {
    const struct ht_events *events = &reader->events;
    uint8_t op = events->op[row];
    unsigned function = ht_op_function(op);
    bool counted = function == HT_CALLOC || function == HT_REALLOCARRAY;
    struct ht_op_shape shape = reader->shapes[op];
    return (struct heaptape_event){.number = events->first_event + row,
                                   .time_ns = events->time_ns[row],
                                   .size = events->size[row],
                                   .count = counted ? events->extra[row] : shape.size,
                                   .alignment = counted ? 0 : events->extra[row],
                                   .slot = events->slot[row],
                                   .thread = events->thread[row],
                                   .function = (uint8_t)function,
                                   .variant = (uint8_t)ht_op_variant(op),
                                   .effect = (uint8_t)effect_of(shape),
                                   .site = events->site ? events->site[row] : 0};
}

PUBLIC const struct heaptape_event *heaptape_next(struct heaptape_reader *reader) {
    if (!reader || reader->failed) return NULL;
    if (reader->row == reader->events.rows && !next_section(reader)) return NULL;
    reader->event = event_at(reader, reader->row++);
    return &reader->event;
}

PUBLIC const char *heaptape_error(const struct heaptape_reader *reader) {
    if (!reader) return "not enough memory";
    return reader->failed ? reader->error.message : NULL;
}

// *text: read when it is asked for first.
static const char *text_of(struct heaptape_reader *reader, char **text,
                           char *(*read)(struct ht_trace_reader *, struct ht_error *)) {
    if (reader->failed || *text) return *text;
    *text = read(reader->trace, &reader->error);
    reader->failed = !*text && reader->error.status;
    return *text;
}

PUBLIC const char *heaptape_context(struct heaptape_reader *reader) {
    return reader ? text_of(reader, &reader->context, ht_trace_context_json) : NULL;
}
PUBLIC const char *heaptape_totals(struct heaptape_reader *reader) {
    return reader ? text_of(reader, &reader->totals, ht_trace_totals_json) : NULL;
}

// NULL where reading failed.
static const struct ht_site_table *sites_of(struct heaptape_reader *reader) {
    if (!reader || reader->failed) return NULL;
    if (!reader->has_sites)
        reader->failed = ht_trace_site_table(reader->trace, &reader->sites, &reader->error);
    reader->has_sites = !reader->failed;
    return reader->has_sites ? &reader->sites : NULL;
}

PUBLIC uint32_t heaptape_sites(struct heaptape_reader *reader) {
    const struct ht_site_table *table = sites_of(reader);
    return table ? (uint32_t)table->sites_count : 0;
}

PUBLIC const char *heaptape_modules(struct heaptape_reader *reader) {
    const struct ht_site_table *table = sites_of(reader);
    return table ? table->modules_json : NULL;
}

PUBLIC size_t heaptape_frames(struct heaptape_reader *reader, uint32_t site, struct heaptape_frame *frames,
                              size_t room) {
    const struct ht_site_table *table = sites_of(reader);
    struct ht_frame frame;
    size_t count = 0;
    if (!table) return 0;
    for (struct ht_frames at = ht_site_frames(table, site); ht_next_frame(&at, &frame); count++)
        if (count < room)
            frames[count] = (struct heaptape_frame){.function = *frame.function ? frame.function : NULL,
                                                    .file = *frame.file ? frame.file : NULL,
                                                    .offset = frame.location->offset,
                                                    .module = frame.location->module,
                                                    .line = frame.line,
                                                    .inlined = frame.inlined};
    return count;
}

PUBLIC const char *heaptape_function_name(unsigned function) {
    return function < HT_FUNCTIONS ? ht_functions[function].name : NULL;
}
