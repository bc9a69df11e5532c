// Executes streams of the replay form.
#ifndef HEAPTAPE_REPLAY_ENGINE_H
#define HEAPTAPE_REPLAY_ENGINE_H

#include "replay_lane.h"

// Replays the lane's whole stream, in the way its pass asks for, and fills the lane's tallies.
void ht_engine_run(struct ht_lane *lane);

// Executes these words, which are of no stream and wait for nothing, whatever the pass.
void ht_engine_run_words(struct ht_lane *lane, const uint64_t *words, uint64_t count);

#endif
