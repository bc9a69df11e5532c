// SPDX-License-Identifier: Apache-2.0
// Turns of a participant: a child replays the trace in one way, and what it showed becomes a line of results.
#ifndef HEAPTAPE_TURNS_H
#define HEAPTAPE_TURNS_H

#include <jansson.h>

#include "runner.h"

// Runs it. Into the answer: of the warm-up "cpu_ns" where it is known; of a flat turn whose timed turn follows "failed"; of the
// last turn of a pass "problem" (null: none), "line", the line of results without its curves, and "exact", the
// figures that the line has rounded.
void ht_turn_run(struct ht_runner *runner, const struct ht_turn *turn, json_t *answer);

// Who takes the turn.
const struct ht_choice *ht_turn_choice(const struct ht_runner *runner, const struct ht_turn *turn);

#endif
