// Executes streams of the replay form.
#ifndef HEAPTAPE_REPLAY_ENGINE_H
#define HEAPTAPE_REPLAY_ENGINE_H

#include "replay_lane.h"

// The run of lanes whose time or memory is measured.
void ht_engine_run(struct ht_lane *lane);

// Executes the call that begins at word, for passes that go from call to call.
void ht_engine_call(struct ht_lane *lane, const uint64_t *word);

#endif
