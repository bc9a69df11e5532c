// SPDX-License-Identifier: Apache-2.0
// Executes streams of the replay form.
#ifndef HEAPTAPE_REPLAY_ENGINE_H
#define HEAPTAPE_REPLAY_ENGINE_H

#include "replay_lane.h"

// The run of lanes whose time or memory is measured, in the lane's layout of the code. Callgrind and our own tool
// (count_runs.c) count what is done in it.
void ht_engine_run(struct ht_lane *lane);
// Does the same for what is there before the first call: it does not count.
void ht_engine_run_before(struct ht_lane *lane);
ht_lane_run ht_engine_layout_0;

// Executes the call that begins at word, for passes that go from call to call.
void ht_engine_call(struct ht_lane *lane, const uint64_t *word);

// Takes the last sample, which the lane has left, now that all lanes have ended.
void ht_engine_end_sample(struct ht_lane *lane);

#endif
