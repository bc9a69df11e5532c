// SPDX-License-Identifier: Apache-2.0
// How a replay thread and the clock go through trace time when more is to be done than to set a number.
#ifndef HEAPTAPE_REPLAY_PACE_H
#define HEAPTAPE_REPLAY_PACE_H

#include "replay_lane.h"

// Waits until the real moment of this trace time, where the replay is to take real time.
void ht_pace_wait(struct ht_lane *lane, uint64_t time_ns);

// The only lane's next op is at time_ns: sets the clock, while background threads do what is due until then,
// and waits for the real moment.
void ht_pace_advance_alone(struct ht_lane *lane, uint64_t time_ns);

// All has been executed: goes on to the end of the trace, which may lie far behind the last op.
void ht_pace_to_end(struct ht_window *window, uint64_t end_ns);

#endif
