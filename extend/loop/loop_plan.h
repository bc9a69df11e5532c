// SPDX-License-Identifier: Apache-2.0
// How a stretch of a trace is repeated: where exactly it begins and ends, who plays whom, and what a repetition consists of.
#ifndef HEAPTAPE_LOOP_PLAN_H
#define HEAPTAPE_LOOP_PLAN_H

#include "block_matching.h"
#include "ops.h"

// What becomes of a thread that calls in the stretch.
enum loop_thread_kind {
    LOOP_THREAD_SILENT,  // it does not call there
    LOOP_THREAD_STAYS,   // it is there before and after
    LOOP_THREAD_INSIDE,  // it begins and ends there
    LOOP_THREAD_LEAVES,  // it ends there
    LOOP_THREAD_ARRIVES  // it begins there
};

struct loop_thread {
    enum loop_thread_kind kind;
    // Of one that is there at the beginning: whose thread plays it in the next repetition, itself or another. Of one that is
    // there at the end: which it plays then. MATCH_NONE: a thread of its own plays it, which begins and ends in the repetition.
    uint32_t player, plays;
    uint64_t head_calls;        // up to the end of the stretch
    uint64_t head_end_ns;       // its last event there
    uint64_t calls, calls_cut;  // of a repetition, and of the last one, which is cut off
    uint64_t first_row, last_ns,
        last_cut_ns;  // its first event's place in a repetition; times as in the stretch
    uint64_t first_ns;
};

// One section of events that a repetition is made of.
struct loop_section {
    size_t section;  // of the trace
    uint32_t rows, rows_cut;
    uint64_t first_row, first_ns;
};

// A large block's birth in the stretch, of which the trace has residency.
struct loop_birth {
    uint64_t event, row;
};

struct loop_plan {
    uint64_t from_event, end_event;  // of the stretch
    uint64_t from_ns, until_ns;      // what a repetition takes lies between
    uint64_t to_ns;                  // the extended trace ends there
    uint64_t loops;                  // repetitions, the last one perhaps cut off
    uint64_t cut_ns;                 // where the last one is cut off, as a time of the stretch
    uint64_t rows, rows_cut;         // events of a repetition, and of the last one
    struct loop_section *sections;
    size_t sections_count, sections_room;
    struct loop_thread *threads;
    uint32_t threads_count;  // of the trace
    uint32_t head_threads;   // that call before the end of the stretch
    uint32_t *
        play;  // by slot at the stretch's beginning: the slot, at its end, of the block that plays it; 0: none does
    uint32_t *
        predecessor;  // by slot: whose player it takes over from the last repetition; play has those of live blocks
    uint32_t slots;      // that the stretch and what comes before it have
    bool sized_frees;    // whether the stretch has any
    uint64_t *left_out;  // by event of the stretch: blocks that only the stretch itself makes
    struct loop_birth *births;
    size_t births_count, births_room;
    // What the matching found, for the reader.
    uint64_t live_objects, freed_objects,
        made_objects;  // at the beginning; those that end in the stretch, that are made and stay
    uint64_t by_thread, by_class, by_size, unmatched_freed, unmatched_made, lasting;
    uint64_t freed_bytes, made_bytes;
    uint64_t grown_bytes;  // by each repetition
    double live_bytes;     // at the end of the stretch
    double live_error;     // the worst share by which a repetition's end is off the line
};

static inline bool loop_leaves_out(const struct loop_plan *plan, uint64_t event) {
    uint64_t at = event - plan->from_event;
    return plan->left_out[at / 64] >> at % 64 & 1;
}

// Is an event of the stretch one of a repetition? played: whether the object that it names is there.
static inline bool loop_has(const struct loop_plan *plan, struct ht_op_shape shape, bool played,
                            uint64_t event) {
    if (!shape.slot) return true;
    return shape.makes_object ? !loop_leaves_out(plan, event) : played;
}

#endif
