// SPDX-License-Identifier: Apache-2.0
// What waiting costs, so that it can be taken off a lane's CPU time: a lane's time is what its calls take.
//
// A short wait spins, and is counted in turns: two readings of the clock would take longer than most of these
// waits. What one turn takes is measured at the start. Whatever enters the kernel (to sleep, to wake
// somebody, to start a thread) takes microseconds and is timed by the thread's CPU clock, whose own reading
// is taken off as well.
#ifndef HEAPTAPE_LANE_WAIT_H
#define HEAPTAPE_LANE_WAIT_H

#include "raw_clock.h"
#include "replay_lane.h"

// Measures what waiting costs here. Where only one CPU is allowed nobody spins: who is waited for cannot run.
struct ht_wait_costs ht_wait_costs_measure(void);

// CPU time between these two is not the calls'.
static inline uint64_t ht_uncounted_begin(void) { return ht_thread_cpu_ns(); }
static inline void ht_uncounted_end(struct ht_lane *lane, uint64_t begin_ns) {
    lane->wait_cpu_ns += ht_thread_cpu_ns() - begin_ns + lane->window->costs.reading_ns;
}

// What has been taken of the lane's time for waiting: by its CPU clock, and by the clock on the wall.
static inline uint64_t ht_spun_ns(const struct ht_lane *lane) {
    return lane->window ? (uint64_t)((double)lane->turns * lane->window->costs.turn_ns) : 0;
}

#endif
