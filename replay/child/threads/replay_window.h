// SPDX-License-Identifier: Apache-2.0
// Keeps replay threads together in trace time, and starts and ends them where the recorded ones did.
#ifndef HEAPTAPE_REPLAY_WINDOW_H
#define HEAPTAPE_REPLAY_WINDOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "background_threads.h"
#include "raw_calls.h"
#include "replay_lane.h"

// What waiting costs, so that it can be taken off a lane's CPU time: a lane's time is what its calls take.
//
// A short wait spins, and is counted in turns: two readings of the clock would take longer than most of these
// waits. What one turn takes is measured at the start. Whatever enters the kernel (to sleep, to wake
// somebody, to start a thread) takes microseconds and is timed by the thread's CPU clock, whose own reading
// is taken off as well.

// CPU time between these two is not the calls'.
static inline uint64_t ht_uncounted_begin(void) { return ht_thread_cpu_ns(); }
static inline void ht_uncounted_end(struct ht_lane *lane, uint64_t begin_ns) {
    lane->wait_cpu_ns += ht_thread_cpu_ns() - begin_ns + lane->window->costs.reading_ns;
}

// What has been taken of the lane's time for waiting: by its CPU clock, and by the clock on the wall.
static inline uint64_t ht_spun_ns(const struct ht_lane *lane) {
    return lane->window ? (uint64_t)((double)lane->turns * lane->window->costs.turn_ns) : 0;
}

// From here on this thread's calls are the trace's, or again the C library's own.
static inline void ht_lane_replaying(const struct ht_window *window, bool yes) {
    if (window->replaying) window->replaying(yes);
}

// A dependency is kept in a word by slot. The word holds the number's lower 31 bits, and in bit 0 whether somebody sleeps.
static inline bool ht_dependency_is(uint32_t word, uint32_t dependency) {
    return (word ^ dependency << 1) <= 1;
}

// Waits until the real moment of this trace time, where the replay is to take real time.
void ht_pace_wait(struct ht_lane *lane, uint64_t time_ns);

// The only lane's next op is at time_ns: sets the clock, while background threads do what is due until then,
// and waits for the real moment.
void ht_pace_advance_alone(struct ht_lane *lane, uint64_t time_ns);

// All has been executed: goes on to the end of the trace, which may lie far behind the last op.
void ht_pace_to_end(struct ht_window *window, uint64_t end_ns);

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

// Order between threads, slot by slot: an op waits only for the op on the same slot that precedes it in the
// trace, and only where another thread did that one. The launcher numbers these dependencies per slot;
// the thread of the earlier op publishes the number, the one of the later op waits for it. Several threads
// may wait for the same slot, each for a number of its own; the numbers are published in order, and the next
// one only by a thread that has found its own, so nobody's number is passed by.
void ht_dependency_wait_slowly(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t dependency);
void ht_dependency_wake(struct ht_lane *lane, _Atomic uint32_t *word);

static inline void ht_dependency_wait(struct ht_lane *lane, uint32_t slot, uint32_t dependency) {
    _Atomic uint32_t *word = &lane->dependencies[slot];
    if (__builtin_expect(!ht_dependency_is(atomic_load_explicit(word, memory_order_acquire), dependency),
                         0)) {
        ht_dependency_wait_slowly(lane, word, dependency);
    }
}

static inline void ht_dependency_publish(struct ht_lane *lane, uint32_t slot, uint32_t dependency) {
    _Atomic uint32_t *word = &lane->dependencies[slot];
    uint32_t before = atomic_exchange_explicit(word, dependency << 1, memory_order_acq_rel);
    if (__builtin_expect(before & 1, 0)) ht_dependency_wake(lane, word);
}

// order: a dependency's number << 1 | whether to publish it.
static inline void ht_dependency(struct ht_lane *lane, uint32_t slot, uint32_t order) {
    if (order & 1) ht_dependency_publish(lane, slot, order >> 1);
    else ht_dependency_wait(lane, slot, order >> 1);
}

#endif
