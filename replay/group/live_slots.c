// SPDX-License-Identifier: Apache-2.0
#include "live_slots.h"

#include <stdlib.h>

#include "grow.h"
#include "ops.h"

struct walk {
    struct ht_trace_reader *reader;
    const struct ht_live_moment *moments;
    size_t count, next;
    ht_live_visitor *visit;
    void *context;
    struct ht_error *error;
    struct ht_op_shape shape[256];
    struct ht_live_slot *slot;  // by slot; birth of UINT64_MAX: nothing is live in it
    size_t slots, room;
    struct ht_live_slot *live;  // of the moment before, while nothing has changed
    size_t lives, live_room;
    bool unchanged;
};

static int no_memory(const struct walk *walk) {
    return ht_error_memory(walk->error, ht_trace_path(walk->reader), "following the blocks of a group");
}

static int earlier_first(const void *a, const void *b) {
    const struct ht_live_slot *left = a, *right = b;
    return (left->birth > right->birth) - (left->birth < right->birth);
}

static int collect(struct walk *walk) {
    walk->lives = 0;
    for (size_t i = 0; i < walk->slots; i++) {
        if (walk->slot[i].birth == UINT64_MAX) continue;
        if (!ht_grow(&walk->live, &walk->live_room, walk->lives + 1, sizeof *walk->live))
            return no_memory(walk);
        walk->live[walk->lives] = walk->slot[i];
        walk->live[walk->lives++].slot = (uint32_t)i;
    }
    if (walk->lives) qsort(walk->live, walk->lives, sizeof *walk->live, earlier_first);
    walk->unchanged = true;
    return 0;
}

// All moments that lie before this event. Returns 0, or -1 with error.
static int pass_moments(struct walk *walk, uint64_t event, uint64_t time_ns) {
    while (walk->next < walk->count) {
        const struct ht_live_moment *moment = &walk->moments[walk->next];
        if (event < moment->event && time_ns <= moment->time_ns) return 0;
        if (!walk->unchanged && collect(walk)) return -1;
        if (walk->visit(walk->context, walk->next++, walk->live, walk->lives, walk->error)) return -1;
    }
    return 0;
}

static int know_slot(struct walk *walk, uint32_t slot, uint64_t event, const struct ht_section_place *place) {
    if (!ht_slot_is_due(slot, event))
        return ht_error_input(walk->error, ht_trace_path(walk->reader), place->offset,
                              "expected slot numbers without a gap, found %u", slot);
    if (!ht_grow(&walk->slot, &walk->room, (size_t)slot + 1, sizeof *walk->slot)) return no_memory(walk);
    while (walk->slots <= slot) walk->slot[walk->slots++] = (struct ht_live_slot){.birth = UINT64_MAX};
    return 0;
}

static int follow(struct walk *walk, const struct ht_section_place *place, const struct ht_events *events) {
    for (uint32_t i = 0; i < events->rows && walk->next < walk->count; i++) {
        uint64_t event = events->first_event + i, extra = events->extra[i];
        uint8_t op = events->op[i];
        const struct ht_op_shape *shape = &walk->shape[op];
        if (pass_moments(walk, event, events->time_ns[i])) return -1;
        if (!shape->slot || shape->query || shape->control) continue;
        if (know_slot(walk, events->slot[i], event, place)) return -1;
        struct ht_live_slot *slot = &walk->slot[events->slot[i]];
        unsigned function = ht_op_function(op);
        bool many = function == HT_CALLOC || function == HT_REALLOCARRAY;
        walk->unchanged = false;
        if (shape->ends_object) slot->birth = UINT64_MAX;
        else *slot = (struct ht_live_slot){event, many ? events->size[i] * extra : events->size[i], 0};
    }
    return 0;
}

static int walk_all(struct walk *walk) {
    struct ht_events events;
    for (size_t i = 0; i < ht_trace_sections(walk->reader) && walk->next < walk->count; i++) {
        const struct ht_section_place *place = ht_trace_section(walk->reader, i);
        if (place->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(walk->reader, i, &events, walk->error) || follow(walk, place, &events)) return -1;
    }
    return pass_moments(walk, UINT64_MAX, UINT64_MAX);
}

int ht_live_slots(struct ht_trace_reader *reader, const struct ht_live_moment *moments, size_t count,
                  ht_live_visitor *visit, void *context, struct ht_error *error) {
    struct walk walk = {.reader = reader,
                        .moments = moments,
                        .count = count,
                        .visit = visit,
                        .context = context,
                        .error = error};
    for (unsigned op = 0; op < 256; op++) walk.shape[op] = ht_op_shape((uint8_t)op);
    int failed = walk_all(&walk);
    free(walk.slot);
    free(walk.live);
    return failed;
}
