// Keeps replay threads together in trace time, and starts and ends them where the recorded ones did.
#ifndef HEAPTAPE_REPLAY_WINDOW_H
#define HEAPTAPE_REPLAY_WINDOW_H

#include "background_threads.h"
#include "replay_lane.h"
#include "replay_pace.h"

// Prepares the window over lanes whose streams are set. All tables are the caller's (shared memory).
void ht_window_init(struct ht_window *window, struct ht_lane *lanes, uint32_t lanes_count, uint64_t width_ns,
                    _Atomic uint64_t *places_ns, uint32_t *start_order, struct ht_outcome *outcome);

// Runs all lanes to their ends: `initial` (a lane or NULL) on this thread, the others on threads of their
// own. Calls done (once, on this thread) when the last op has been executed and before lasting threads end.
// A thread that can't be started ends the process, with the reason in the outcome.
void ht_window_run(struct ht_window *window, struct ht_lane *initial, void (*done)(void *), void *context);

// The lane's next op is at time_ns: waits while that is too far ahead of the slowest.
void ht_window_advance_slowly(struct ht_lane *lane, uint64_t time_ns, uint64_t place_before_ns);

// The lane knows no next op yet, but that it is not before time_ns: it holds nobody up before that.
void ht_window_tell_place(struct ht_lane *lane, uint64_t time_ns);

static inline void ht_window_advance(struct ht_lane *lane, uint64_t time_ns) {
    struct ht_window *window = lane->window;
    if (window->alone) {
        bool due = time_ns >= atomic_load_explicit(&ht_background_due_ns, memory_order_relaxed);
        if (__builtin_expect(due || window->real_ns_per_trace_ns > 0, 0))
            ht_pace_advance_alone(lane, time_ns);
        else atomic_store_explicit(&window->low_ns, time_ns, memory_order_relaxed);
        return;
    }
    _Atomic uint64_t *place = &window->places_ns[lane->number];
    uint64_t before_ns = atomic_load_explicit(place, memory_order_relaxed);
    atomic_store(place, time_ns);
    uint64_t low_ns = atomic_load(&window->low_ns);
    // Nobody but the slowest can hold the others up.
    if (before_ns <= low_ns || time_ns > low_ns + window->width_ns) {
        ht_window_advance_slowly(lane, time_ns, before_ns);
    }
    if (__builtin_expect(window->real_ns_per_trace_ns > 0, 0)) ht_pace_wait(lane, time_ns);
}

#endif
