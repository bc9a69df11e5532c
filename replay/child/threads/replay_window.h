// SPDX-License-Identifier: Apache-2.0
// Keeps replay threads together in trace time, and starts and ends them where the recorded ones did.
#ifndef HEAPTAPE_REPLAY_WINDOW_H
#define HEAPTAPE_REPLAY_WINDOW_H

#include "background_threads.h"
#include "replay_lane.h"
#include "replay_pace.h"

// The caller's memory (shared, so that it is not the allocator's): an element per lane each.
struct ht_window_tables {
    struct ht_lane_key *places, *sleepers;
    uint32_t *start_order;
    void **stacks;
};

// Prepares the window over lanes whose streams are set. initial: the lane that runs on this thread, or NULL.
void ht_window_init(struct ht_window *window, struct ht_lane *lanes, uint32_t lanes_count,
                    struct ht_lane *initial, uint64_t width_ns, const struct ht_window_tables *tables,
                    struct ht_outcome *outcome);

// Runs all lanes to their ends: the initial one on this thread, the others on threads of their own. Returns
// when the last op has been executed; threads that lasted to the end of the program still exist then. A
// thread that cannot be started ends the process, with the reason in the outcome.
void ht_window_run(struct ht_window *window);

// All lanes have run, and been given other streams: prepares them to run once more, with their time 0 at base_ns. Threads that
// still exist go on.
void ht_window_go_on(struct ht_window *window, uint64_t base_ns);

// Ends the threads that still exist, so that all lanes can be run once more, with their time 0 at base_ns.
void ht_window_rewind(struct ht_window *window, uint64_t base_ns);

// The lane's next op is at time_ns: waits while that is too far ahead of the slowest.
void ht_window_advance_slowly(struct ht_lane *lane, uint64_t time_ns, uint64_t place_before_ns);

// The lane knows no next op yet, but that it is not before time_ns: it holds nobody up before that. What this
// takes, waiting for other lanes included, is the caller's to take off the lane's time.
void ht_window_report_place(struct ht_lane *lane, uint64_t time_ns);

// The lane has executed its last op: it holds nobody up any more.
void ht_window_leave(struct ht_lane *lane);

// The last sample shows the end. The lane that comes to it may be a window ahead of the others, so it leaves the sample to the
// one that runs them all (ht_window_run).
static inline bool ht_window_leaves_sample(struct ht_lane *lane, uint32_t number) {
    if (!lane->window || number + 1 != lane->form->samples) return false;
    return lane->has_end_sample = true;
}

static inline void ht_window_advance(struct ht_lane *lane, uint64_t trace_ns) {
    struct ht_window *window = lane->window;
    uint64_t time_ns = window->base_ns + trace_ns;
    if (window->alone) {
        bool due = time_ns >= atomic_load_explicit(&ht_background_due_ns, memory_order_relaxed);
        if (__builtin_expect(due || window->real_ns_per_trace_ns > 0, 0))
            ht_pace_advance_alone(lane, time_ns);
        else atomic_store_explicit(&window->low_ns, time_ns, memory_order_relaxed);
        return;
    }
    uint64_t before_ns = atomic_load_explicit(&lane->place_ns, memory_order_relaxed);
    atomic_store(&lane->place_ns, time_ns);
    uint64_t low_ns = atomic_load(&window->low_ns);
    // Nobody but the slowest can hold the others up.
    if (before_ns <= low_ns || time_ns > low_ns + window->width_ns || window->by_turns) {
        ht_window_advance_slowly(lane, time_ns, before_ns);
    }
    if (__builtin_expect(window->real_ns_per_trace_ns > 0, 0)) ht_pace_wait(lane, time_ns);
}

#endif
