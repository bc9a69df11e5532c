// SPDX-License-Identifier: Apache-2.0
#include "plan_loops.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "block_matching.h"
#include "grow.h"
#include "loop_threads.h"
#include "slot_table.h"
#include "sorted.h"
#include "trace_facts.h"

// ---- where a stretch begins and ends ----
//
// As much is live at its end as at its beginning, so that one repetition can follow another.

struct stretch_ends {
    uint64_t from_event, end_event, from_ns, until_ns;
    uint64_t live_bytes;  // at the beginning
    uint32_t slots;       // the highest one before the end
};

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

static void search_event(struct searching *s, const struct ht_events *events, uint32_t row) {
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

static int stretch_ends_find(struct ht_trace_reader *reader, const char *path,
                             const struct steady_stretch *stretch, struct stretch_ends *ends,
                             struct ht_error *error) {
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
        for (uint32_t row = 0; !status && !s.over && row < events.rows; row++) search_event(&s, &events, row);
    }
    slot_table_free(&s.blocks);
    if (!status && !ends->end_event)
        status = ht_error_input(error, path, 0, "expected events in the stretch, found none");
    return status;
}

// ---- what is live at the beginning and at the end of a stretch ----

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
    if (list) qsort(list, *count, sizeof *list, ht_by_word);
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

static void read_event(struct reading *reading, const struct ht_events *events, uint32_t row) {
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

static int stretch_blocks_read(struct ht_trace_reader *reader, const char *path, struct loop_plan *plan,
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
            read_event(&reading, &events, row);
        }
    }
    if (memory && !status) memory = finish(&reading);
    slot_table_free(&reading.blocks);
    if (status || memory) return status;
    return ht_error_memory(error, path, "cannot list what is live");
}

static int no_memory(const char *path, struct ht_error *error) {
    return ht_error_memory(error, path, "cannot plan an extension");
}

// ---- who plays whom ----

static void note_result(struct loop_plan *plan, const struct matching *matching) {
    plan->live_objects = matching->before_count;
    for (size_t i = 0; i < matching->before_count; i++) {
        if (!matching->before[i].turns) continue;
        plan->freed_objects++;
        plan->freed_bytes += matching->before[i].bytes;
    }
    for (size_t i = 0; i < matching->after_count; i++) {
        if (!matching->after[i].turns) continue;
        plan->made_objects++;
        plan->made_bytes += matching->after[i].bytes;
    }
    plan->by_thread = matching->by_thread;
    plan->by_class = matching->by_class;
    plan->by_size = matching->by_size;
    plan->unmatched_freed = matching->unmatched_before;
    plan->unmatched_made = matching->unmatched_after;
    plan->lasting = matching->lasting;
}

// Where live bytes are at the ends of repetitions, against the line that they should follow.
static bool know_levels(struct loop_plan *plan, const struct matching *matching) {
    double live[LOOP_LEVELS_MAX + 1];
    size_t loops = plan->loops < LOOP_LEVELS_MAX ? plan->loops : LOOP_LEVELS_MAX;
    if (!match_live_bytes(matching, live, loops)) return false;
    plan->live_bytes = live[0];
    for (size_t loop = 1; loop <= loops; loop++) {
        double expected = live[0] + (double)plan->grown_bytes * (double)loop;
        double error = (live[loop] - expected) / fmax(expected, 1);
        if (fabs(error) > fabs(plan->live_error)) plan->live_error = error;
    }
    return true;
}

static bool keep_matching(struct loop_plan *plan, const struct matching *matching) {
    uint64_t events = plan->end_event - plan->from_event;
    plan->play = calloc((size_t)plan->slots + 1, sizeof *plan->play);
    plan->left_out = calloc(events / 64 + 1, sizeof *plan->left_out);
    if (!plan->play || !plan->left_out) return false;
    for (size_t i = 0; i < matching->before_count; i++) {
        const struct match_block *block = &matching->before[i];
        if (block->partner != MATCH_NONE) plan->play[block->slot] = matching->after[block->partner].slot;
    }
    return true;
}

// Each slot takes over a player that no other slot does: where a block is in it as the repetition begins, that of the block's
// partner; else its own; or if another slot takes that over, the other's; and so on.
static bool find_predecessors(struct loop_plan *plan) {
    uint32_t *successor = calloc((size_t)plan->slots + 1, sizeof *successor);
    plan->predecessor = calloc((size_t)plan->slots + 1, sizeof *plan->predecessor);
    if (successor && plan->predecessor) {
        for (uint32_t slot = 1; slot <= plan->slots; slot++)
            if (plan->play[slot]) successor[plan->play[slot]] = slot;
        for (uint32_t slot = 1; slot <= plan->slots; slot++) {
            uint32_t from = plan->play[slot] ? plan->play[slot] : slot;
            while (!plan->play[slot] && successor[from]) from = successor[from];
            plan->predecessor[slot] = from;
        }
    }
    free(successor);
    return successor && plan->predecessor;
}

// An object that is left out may have been reallocated since it was made: it is known by the slot that it has at the end. So the
// stretch is gone through once more, and the last event in that slot that makes an object is its birth.
static int mark_left_out(struct ht_trace_reader *reader, const char *path, struct loop_plan *plan,
                         const struct matching *matching, struct ht_error *error) {
    bool *wanted = calloc((size_t)plan->slots + 1, sizeof *wanted);
    uint64_t *born = calloc((size_t)plan->slots + 1, sizeof *born);
    int status = wanted && born ? 0 : no_memory(path, error);
    bool any = false;
    for (size_t i = 0; !status && i < matching->after_count; i++) {
        const struct match_block *block = &matching->after[i];
        if (block->partner != MATCH_NONE || block->lasts) continue;
        any = wanted[block->slot] = true;
    }
    for (size_t i = 0; any && !status && i < ht_trace_sections(reader); i++) {
        const struct ht_section_place *place = ht_trace_section(reader, i);
        struct ht_events events;
        if (place->kind != HT_SECTION_EVENTS || place->first_event + place->rows <= plan->from_event)
            continue;
        if (place->first_event >= plan->end_event) break;
        status = ht_trace_events(reader, i, &events, error);
        for (uint32_t row = 0; !status && row < events.rows; row++) {
            uint64_t event = events.first_event + row;
            if (event < plan->from_event || event >= plan->end_event || !wanted[events.slot[row]]) continue;
            if (ht_op_shape(events.op[row]).makes_object) born[events.slot[row]] = event + 1;
        }
    }
    for (uint32_t slot = 1; !status && slot <= plan->slots; slot++) {
        if (!born[slot]) continue;
        uint64_t at = born[slot] - 1 - plan->from_event;
        plan->left_out[at / 64] |= UINT64_C(1) << at % 64;
    }
    free(wanted);
    free(born);
    return status;
}

// ---- what a repetition consists of ----

struct census {
    struct loop_plan *plan;
    const struct ht_trace_facts *facts;
    struct ht_op_shape shape[256];
    bool *played;  // by slot
    size_t residency_at, steps_at;
};

// Does the trace know how a block was filled whose birth this is? Births come in order.
static bool has_residency(struct census *census, uint64_t event) {
    const struct ht_trace_facts *facts = census->facts;
    while (census->residency_at < facts->residency_count &&
           facts->residency[census->residency_at].event < event)
        census->residency_at++;
    while (census->steps_at < facts->steps_count && facts->steps[census->steps_at].event < event)
        census->steps_at++;
    return (census->residency_at < facts->residency_count &&
            facts->residency[census->residency_at].event == event) ||
           (census->steps_at < facts->steps_count && facts->steps[census->steps_at].event == event);
}

static bool count_event(struct census *census, struct loop_section *section, const struct ht_events *events,
                        uint32_t row) {
    struct loop_plan *plan = census->plan;
    uint64_t event = events->first_event + row, time_ns = events->time_ns[row];
    const struct ht_op_shape shape = census->shape[events->op[row]];
    struct loop_thread *thread = &plan->threads[events->thread[row]];
    bool has = loop_has(plan, shape, census->played[events->slot[row]], event);
    plan->sized_frees |= shape.ends_object && shape.size;
    if (shape.slot && !shape.query) census->played[events->slot[row]] = has && !shape.ends_object;
    if (!has) return true;
    bool cut = time_ns >= plan->cut_ns, call = ht_op_is_call(events->op[row]);
    if (thread->first_row == UINT64_MAX) {
        thread->first_row = plan->rows;
        thread->first_ns = time_ns;
    }
    thread->calls += call;
    thread->last_ns = time_ns;
    if (section->rows == 0) section->first_ns = time_ns;
    section->rows++;
    plan->rows++;
    if (!cut) {
        thread->calls_cut += call;
        thread->last_cut_ns = time_ns;
        section->rows_cut++;
        plan->rows_cut++;
    }
    if (!shape.slot || shape.query || shape.ends_object || !has_residency(census, event)) return true;
    if (!ht_grow(&plan->births, &plan->births_room, plan->births_count + 1, sizeof *plan->births))
        return false;
    plan->births[plan->births_count++] = (struct loop_birth){event, plan->rows - 1};
    return true;
}

static int count_section(struct census *census, struct ht_trace_reader *reader, const char *path, size_t i,
                         struct ht_error *error) {
    struct loop_plan *plan = census->plan;
    struct ht_events events;
    if (ht_trace_events(reader, i, &events, error)) return -1;
    struct loop_section section = {.section = i, .first_row = plan->rows};
    for (uint32_t row = 0; row < events.rows; row++) {
        uint64_t event = events.first_event + row;
        if (event < plan->from_event || event >= plan->end_event) continue;
        if (!count_event(census, &section, &events, row)) return no_memory(path, error);
    }
    if (!section.rows) return 0;
    if (!ht_grow(&plan->sections, &plan->sections_room, plan->sections_count + 1, sizeof *plan->sections))
        return no_memory(path, error);
    plan->sections[plan->sections_count++] = section;
    return 0;
}

static int count_loop(struct ht_trace_reader *reader, const char *path, const struct ht_trace_facts *facts,
                      struct loop_plan *plan, struct ht_error *error) {
    struct census census = {
        .plan = plan, .facts = facts, .played = calloc((size_t)plan->slots + 1, sizeof(bool))};
    if (!census.played) return no_memory(path, error);
    for (unsigned op = 0; op < 256; op++) census.shape[op] = ht_op_shape((uint8_t)op);
    for (uint32_t slot = 1; slot <= plan->slots; slot++) census.played[slot] = plan->play[slot] != 0;
    for (uint32_t i = 0; i < plan->threads_count; i++) plan->threads[i].first_row = UINT64_MAX;
    int status = 0;
    for (size_t i = 0; i < ht_trace_sections(reader) && !status; i++) {
        const struct ht_section_place *place = ht_trace_section(reader, i);
        if (place->kind != HT_SECTION_EVENTS || place->first_event + place->rows <= plan->from_event)
            continue;
        if (place->first_event >= plan->end_event) break;
        status = count_section(&census, reader, path, i, error);
    }
    free(census.played);
    return status;
}

// ---- all of it ----

// Blocks are matched within what their threads are in the next repetition; those whose threads are gone by then, among themselves.
static void know_threads(const struct loop_plan *plan, struct matching *matching) {
    for (size_t i = 0; i < matching->before_count; i++) {
        struct match_block *block = &matching->before[i];
        enum loop_thread_kind kind = plan->threads[block->thread].kind;
        if (kind != LOOP_THREAD_STAYS && kind != LOOP_THREAD_LEAVES) block->thread = MATCH_NONE;
    }
    for (size_t i = 0; i < matching->after_count; i++) {
        struct match_block *block = &matching->after[i];
        block->thread = plan->threads[block->thread].plays;
    }
}

static int plan_blocks(struct ht_trace_reader *reader, const char *path, const struct steady_stretch *stretch,
                       const struct ht_trace_facts *facts, struct loop_plan *plan, struct ht_error *error) {
    struct matching matching = {0};
    int status = stretch_blocks_read(reader, path, plan, &matching, error);
    if (!status && !loop_threads_plan(plan, facts)) status = no_memory(path, error);
    if (!status) know_threads(plan, &matching);
    if (!status && !match_blocks(&matching)) status = no_memory(path, error);
    if (!status && stretch->grows) {
        double bytes = stretch->live.step * (double)(plan->until_ns - plan->from_ns);
        plan->grown_bytes = match_grow(&matching, bytes > 0 ? (uint64_t)llround(bytes) : 0);
    }
    if (!status) note_result(plan, &matching);
    if (!status &&
        (!know_levels(plan, &matching) || !keep_matching(plan, &matching) || !find_predecessors(plan)))
        status = no_memory(path, error);
    if (!status) status = mark_left_out(reader, path, plan, &matching, error);
    matching_free(&matching);
    return status;
}

int loop_plan_make(struct ht_trace_reader *reader, const char *path, const struct steady_stretch *stretch,
                   const struct ht_trace_facts *facts, uint64_t to_ns, struct loop_plan *plan,
                   struct ht_error *error) {
    struct stretch_ends ends;
    *plan = (struct loop_plan){.to_ns = to_ns, .threads_count = (uint32_t)facts->threads_count};
    if (stretch_ends_find(reader, path, stretch, &ends, error)) return -1;
    plan->from_event = ends.from_event;
    plan->end_event = ends.end_event;
    uint32_t unit_ns = ht_trace_time_unit_ns(reader);
    plan->from_ns = ends.from_ns / unit_ns * unit_ns;
    plan->until_ns = ends.until_ns;
    plan->slots = ends.slots;
    assert(plan->until_ns > plan->from_ns && to_ns > plan->until_ns);
    uint64_t length_ns = plan->until_ns - plan->from_ns;
    plan->loops = (to_ns - plan->until_ns + length_ns - 1) / length_ns;
    plan->cut_ns = plan->from_ns + (to_ns - plan->until_ns - (plan->loops - 1) * length_ns);
    plan->threads = calloc((size_t)plan->threads_count + 1, sizeof *plan->threads);
    int status =
        plan->threads ? plan_blocks(reader, path, stretch, facts, plan, error) : no_memory(path, error);
    if (!status) status = count_loop(reader, path, facts, plan, error);
    if (status) loop_plan_free(plan);
    return status;
}

void loop_plan_free(struct loop_plan *plan) {
    free(plan->sections);
    free(plan->threads);
    free(plan->play);
    free(plan->predecessor);
    free(plan->left_out);
    free(plan->births);
    *plan = (struct loop_plan){0};
}
