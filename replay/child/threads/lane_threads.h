// SPDX-License-Identifier: Apache-2.0
// The threads on which lanes run, and the stacks of those threads.
#ifndef HEAPTAPE_LANE_THREADS_H
#define HEAPTAPE_LANE_THREADS_H

#include "replay_lane.h"

// Both with the window's lock held. body: what the thread does. One that cannot be started ends the process, with the
// reason in the outcome, because others may already wait for its ops.
void ht_lane_thread_start(struct ht_lane *lane, void *(*body)(void *lane));
void ht_lane_threads_join(struct ht_window *window);  // those that have ended

// From here on this thread's calls are the trace's, or again the C library's own.
static inline void ht_lane_replaying(const struct ht_window *window, bool yes) {
    if (window->replaying) window->replaying(yes);
}

#endif
