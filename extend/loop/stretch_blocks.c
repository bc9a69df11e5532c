// SPDX-License-Identifier: Apache-2.0
#include "stretch_blocks.h"

#include <stdlib.h>

#include "event_bytes.h"
#include "slot_table.h"

// What a slot holds.
struct held {
    uint64_t birth, bytes;
    uint32_t thread, kind;
    uint32_t
        before;  // the object's place in the list of those live at the stretch's beginning, plus one; 0: made since
    bool live, resized;
};

struct reading {
    struct loop_plan *plan;
    struct matching *matching;
    struct ht_op_shape shape[256];
    struct slot_table blocks;  // of struct held
    size_t live;
};

enum { FAMILY_NEW = 1, FAMILY_NEW_ARRAY, FAMILY_SHIFT = 8 };

// Blocks of one kind can be freed by the same functions. Of inherited ones that is not known: most are malloc's.
static uint32_t kind_of(uint8_t op, uint64_t extra) {
    unsigned function = ht_op_function(op);
    bool array = function == HT_NEW_ARRAY || function == HT_NEW_ARRAY_ALIGNED;
    bool new = function == HT_NEW || function == HT_NEW_ALIGNED;
    uint32_t family = array ? FAMILY_NEW_ARRAY : new ? FAMILY_NEW : 0;
    bool counted = function == HT_CALLOC || function == HT_REALLOCARRAY;
    bool aligned = ht_functions[function].extra && !counted && extra;
    return family << FAMILY_SHIFT | (aligned ? (uint32_t)__builtin_ctzll(extra) : 0);
}

static struct held *held_at(const struct reading *reading, uint64_t slot) {
    return (struct held *)reading->blocks.items + slot;
}

static int by_birth(const void *a, const void *b) {
    const struct match_block *left = a, *right = b;
    return (left->birth > right->birth) - (left->birth < right->birth);
}

// Everything that is live now, by birth. NULL for want of memory.
static struct match_block *list_live(const struct reading *reading, size_t *count) {
    struct match_block *list = malloc((reading->live + 1) * sizeof *list);
    *count = 0;
    for (uint64_t slot = 1; list && (slot = slot_table_next(&reading->blocks, slot)) < reading->blocks.room;
         slot++) {
        const struct held *held = held_at(reading, slot);
        if (!held->live) continue;
        list[(*count)++] = (struct match_block){.birth = held->birth,
                                                .bytes = held->bytes,
                                                .slot = (uint32_t)slot,
                                                .thread = held->thread,
                                                .kind = held->kind,
                                                .turns = true,
                                                .resized = held->resized,
                                                .same = held->before - 1,
                                                .partner = MATCH_NONE};
    }
    if (list) qsort(list, *count, sizeof *list, by_birth);
    return list;
}

static bool begin(struct reading *reading) {
    struct matching *matching = reading->matching;
    matching->before = list_live(reading, &matching->before_count);
    for (size_t i = 0; matching->before && i < matching->before_count; i++) {
        struct held *held = held_at(reading, matching->before[i].slot);
        held->before = (uint32_t)i + 1;
        held->resized = false;
    }
    return matching->before != NULL;
}

// Tells those that are in both lists of each other.
static bool finish(struct reading *reading) {
    struct matching *matching = reading->matching;
    matching->after = list_live(reading, &matching->after_count);
    for (size_t i = 0; matching->after && i < matching->after_count; i++) {
        struct match_block *after = &matching->after[i];
        if (after->same == MATCH_NONE) continue;
        after->turns = false;
        matching->before[after->same].turns = false;
        matching->before[after->same].same = (uint32_t)i;
    }
    return matching->after != NULL;
}

static void take_event(struct reading *reading, const struct ht_events *events, uint32_t row) {
    const struct ht_op_shape shape = reading->shape[events->op[row]];
    struct loop_thread *thread = &reading->plan->threads[events->thread[row]];
    thread->head_calls += ht_op_is_call(events->op[row]);
    thread->head_end_ns = events->time_ns[row];
    if (events->thread[row] >= reading->plan->head_threads)
        reading->plan->head_threads = events->thread[row] + 1;
    if (!shape.slot || shape.query) return;
    struct held *held = held_at(reading, events->slot[row]);
    if (shape.makes_object) held->before = 0;
    reading->live -= held->live;
    held->resized = held->live;
    held->live = !shape.ends_object;
    reading->live += held->live;
    if (shape.ends_object) return;
    if (shape.makes_object) held->thread = events->thread[row];
    held->birth = events->first_event + row;
    held->bytes = ht_event_bytes(events, row);
    held->kind = kind_of(events->op[row], events->extra[row]);
}

int stretch_blocks_read(struct ht_trace_reader *reader, const char *path, struct loop_plan *plan,
                        struct matching *matching, struct ht_error *error) {
    struct reading reading = {
        .plan = plan, .matching = matching, .blocks = slot_table_of(sizeof(struct held))};
    for (unsigned op = 0; op < 256; op++) reading.shape[op] = ht_op_shape((uint8_t)op);
    bool memory = true;
    int status = 0;
    for (size_t i = 0; i < ht_trace_sections(reader) && memory && !status; i++) {
        struct ht_events events;
        const struct ht_section_place *place = ht_trace_section(reader, i);
        if (place->kind != HT_SECTION_EVENTS) continue;
        if (place->first_event >= plan->end_event) break;
        if ((status = ht_trace_events(reader, i, &events, error))) break;
        memory = slot_table_reach(&reading.blocks, events.slot, events.rows);
        for (uint32_t row = 0; memory && row < events.rows; row++) {
            uint64_t event = events.first_event + row;
            if (event == plan->from_event) memory = begin(&reading);
            if (event >= plan->end_event || !memory) break;
            if (events.thread[row] >= plan->threads_count) {
                status = ht_error_input(
                    error, path, place->offset, "event %llu: %s", (unsigned long long)event,
                    ht_found("expected a thread that the threads section has", events.thread[row]));
                break;
            }
            take_event(&reading, &events, row);
        }
    }
    if (memory && !status) memory = finish(&reading);
    slot_table_free(&reading.blocks);
    if (status || memory) return status;
    return ht_error_memory(error, path, "cannot list what is live");
}
