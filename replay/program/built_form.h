// SPDX-License-Identifier: Apache-2.0
// A trace decoded into the replay form (replay_form.h), and what else the launcher must know of it.
#ifndef HEAPTAPE_BUILT_FORM_H
#define HEAPTAPE_BUILT_FORM_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control_calls.h"
#include "ops.h"
#include "replay_form.h"
#include "replay_job.h"

enum { HT_SCALE_MAX = 1000 };

struct ht_built_form;

// A process of a group stops here in the trace (group_plan.h): before the event of that number, or before the first one at that
// time or later.
struct ht_form_stop {
    uint64_t time_ns, event;  // event: HT_STOP_BY_TIME: the time counts
    uint32_t thread;          // whose stream has the mark, if it still has events; HT_STOP_ANYWHERE: any
};
#define HT_STOP_BY_TIME  UINT64_MAX
#define HT_STOP_ANYWHERE UINT32_MAX

struct ht_form_options {
    bool one_thread;        // the whole trace in one stream, in its global order
    bool in_order;          // threads that run by turns (replay_window.h) do so in the trace's order
    uint32_t page_bytes;    // of the machine that it was recorded on; 0: as replays touch
    uint32_t initial_tid;   // kernel id of the recorded program's initial thread, 0 if not known
    uint32_t timed_one_in;  // about one op in this many is timed in the timed pass, of a long trace fewer
    uint64_t seed;
    uint64_t end_ns;          // trace time at which the recording ended, 0 if not known: RSS is read in
                              // pauses, too, about HT_PAUSE_POINTS_MAX times in all
    uint32_t samples;         // RSS is read about so many times; 0: as often as seems right
    uint64_t held_bytes_max;  // a longer form is streamed
    uint64_t pool_bytes;      // of a streamed one, if that is enough; 0: as much as seems right
    uint32_t scale;           // copies of the trace, at most HT_SCALE_MAX; 0 as 1
    bool has_aligned;         // it may have calls of aligned_alloc and memalign
    bool of_group;            // a process of a group: it stops where it is told, not at samples
    const struct ht_form_stop *stops;  // in the order in which they are due
    uint32_t stops_count;
    bool of_prelude;  // its threads and slots have the numbers of the slice, whatever those are
    // What is replayed before it, unmeasured: it allocates the blocks with which this one begins. NULL: nothing.
    const struct ht_built_form *before;
};

enum { HT_PAUSE_POINTS_MAX = 2000 };

// RSS is read at these points, in recorded order.
struct ht_sample_point {
    uint64_t time_ns, event, live_bytes;
    uint64_t readings;  // how many ops before it are timed
};

// What is known of an op that is timed.
struct ht_reading_point {
    uint64_t bytes : 56;    // allocated, or of the block that was freed
    uint64_t function : 8;  // enum ht_function
};
static_assert(sizeof(struct ht_reading_point) == 8, "reading point");

struct ht_counted_odd_call {
    struct ht_odd_call first;
    uint64_t count;  // 0: there is none
    uint64_t of;     // calls of that function
};

struct ht_built_form {
    int fd;  // what children map, not closed on exec: a held form, which nobody can change, or a pool
    struct ht_form *form;            // of a streamed one the header alone, of which the pool has a copy
    struct ht_form *pool;            // NULL: the form is held
    uint64_t mapped_bytes;           // by each child
    struct ht_sample_point *points;  // form->samples of them
    struct ht_reading_point *reading_points;  // form->readings of them
    uint64_t calls[HT_FUNCTIONS];             // replayed calls by function
    uint64_t calls_total;
    uint64_t failed_skipped, foreign_skipped;
    struct ht_counted_odd_call odd[HT_ODD_CALLS_MAX];
    uint64_t inherited_objects;  // allocated before the replay begins
    uint64_t live_peak_bytes;
    uint64_t touched_peak_bytes;  // the same of the bytes that touch=recorded makes resident, at least
    uint64_t zeroed_peak_bytes;   // of these, what calloc itself had written where recorded: form_blocks.c
    // So many of these are in blocks of 64 KiB and more that the recorder did not measure, though others.
    uint64_t unmeasured_peak_bytes;
    uint32_t side_by_side;  // copies that the child runs, each on threads of its own: 1 where the form's one
                            // stream holds all of them. The figures here are of all copies together
    struct ht_control_counts controls;   // of the program, in one copy
    uint64_t *live_slots;                // a bit for each slot that holds a block when all has been replayed
    struct ht_form_state *state;         // for decoding it again
    const struct ht_built_form *before;  // as of the options
};

// Blocks that the replay begins with in a fresh heap: what led to them is not known.
static inline uint64_t ht_form_fresh_objects(const struct ht_built_form *built) {
    return built->before ? built->before->inherited_objects : built->inherited_objects;
}

#endif
