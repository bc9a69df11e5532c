// SPDX-License-Identifier: Apache-2.0
#include "stretch_ends.h"

#include <math.h>

#include "event_bytes.h"
#include "slot_table.h"

enum { SEARCHED_PART = 8 };  // of the stretch, its last

struct searching {
    const struct steady_stretch *stretch;
    struct stretch_ends *ends;
    struct ht_op_shape shape[256];
    struct slot_table blocks;  // live bytes plus one, by slot
    uint64_t live_bytes, live_objects, last_ns;
    uint64_t objects_then;  // at the beginning
    uint32_t slots;
    bool begun, over;
    double least;  // the least that a place to end is off by
};

// How far what is live is from what was live at the beginning, in bytes and in objects.
static double distance(const struct searching *s, uint64_t time_ns) {
    const struct slope *live = &s->stretch->live;
    double bytes = (double)s->ends->live_bytes, objects = (double)s->objects_then;
    if (s->stretch->grows) bytes += live->step * (double)(time_ns - s->ends->from_ns);
    double off = fabs((double)s->live_bytes - bytes) / fmax(bytes, 1);
    if (!s->stretch->grows) off += fabs((double)s->live_objects - objects) / fmax(objects, 1);
    return off;
}

static void take_event(struct searching *s, const struct ht_events *events, uint32_t row) {
    const struct ht_op_shape shape = s->shape[events->op[row]];
    uint64_t event = events->first_event + row, time_ns = events->time_ns[row];
    struct stretch_ends *ends = s->ends;
    if (!s->begun && time_ns >= s->stretch->from_ns && ht_op_function(events->op[row]) != HT_INHERIT) {
        s->begun = true;
        ends->from_event = event;
        ends->from_ns = s->stretch->from_ns;
        ends->live_bytes = s->live_bytes;
        s->objects_then = s->live_objects;
    }
    uint64_t part_ns = (s->stretch->until_ns - s->stretch->from_ns) / SEARCHED_PART;
    if (s->begun && time_ns + part_ns > s->stretch->until_ns && event > ends->from_event &&
        time_ns > s->last_ns) {
        double off = distance(s, time_ns);
        if (off < s->least) {
            s->least = off;
            ends->end_event = event;
            ends->until_ns = time_ns;
            ends->slots = s->slots;
        }
    }
    s->over = time_ns >= s->stretch->until_ns;
    s->last_ns = time_ns;
    if (!shape.slot || shape.query) return;
    if (events->slot[row] > s->slots) s->slots = events->slot[row];
    uint64_t *block = (uint64_t *)s->blocks.items + events->slot[row];
    if (*block) s->live_bytes -= *block - 1;
    s->live_objects -= *block != 0;
    *block = shape.ends_object ? 0 : ht_event_bytes(events, row) + 1;
    if (*block) s->live_bytes += *block - 1;
    s->live_objects += *block != 0;
}

// The plan has tables by slot, and the far slots of a few hostile bytes would ask for gigabytes.
static const char *what_is_wrong(const struct ht_events *events) {
    uint64_t last_event = events->first_event + events->rows - 1;
    uint32_t slot = 0;
    for (uint32_t row = 0; row < events->rows; row++)
        if (events->slot[row] > slot) slot = events->slot[row];
    return ht_slot_is_due(slot, last_event) ? NULL : ht_found("expected slot numbers without a gap", slot);
}

int stretch_ends_find(struct ht_trace_reader *reader, const char *path, const struct steady_stretch *stretch,
                      struct stretch_ends *ends, struct ht_error *error) {
    *ends = (struct stretch_ends){0};
    struct searching s = {
        .stretch = stretch, .ends = ends, .blocks = slot_table_of(sizeof(uint64_t)), .least = INFINITY};
    for (unsigned op = 0; op < 256; op++) s.shape[op] = ht_op_shape((uint8_t)op);
    int status = 0;
    for (size_t i = 0; i < ht_trace_sections(reader) && !status && !s.over; i++) {
        struct ht_events events;
        const struct ht_section_place *place = ht_trace_section(reader, i);
        const char *wrong;
        if (place->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, i, &events, error)) status = -1;
        else if ((wrong = what_is_wrong(&events)))
            status = ht_error_input(error, path, place->offset, "%s", wrong);
        else if (!slot_table_reach(&s.blocks, events.slot, events.rows))
            status = ht_error_memory(error, path, "cannot follow the heap");
        for (uint32_t row = 0; !status && !s.over && row < events.rows; row++) take_event(&s, &events, row);
    }
    slot_table_free(&s.blocks);
    if (!status && !ends->end_event)
        status = ht_error_input(error, path, 0, "expected events in the stretch, found none");
    return status;
}
