// SPDX-License-Identifier: Apache-2.0
// Runs what the judge asks for.
#ifndef HEAPTAPE_JUDGED_RUNS_H
#define HEAPTAPE_JUDGED_RUNS_H

#include <jansson.h>

#include "judge.h"
#include "machine_facts.h"
#include "replay_plan.h"
#include "runner.h"

// Runs what the judge asks for.

// Waits until the judge is ready, and tells it the context. False: there are no verdicts, with why not in missing; *status is
// what it ends with where it refuses the context, which it has said, else HT_EXIT_DONE.
bool ht_judge_meet(struct ht_judge *judge, const struct ht_runner *runner, char *missing, size_t room,
                   int *status);

// Runs job after job. refused: allocators that failed before. Returns the exit status.
int ht_judge_serve(struct ht_judge *judge, struct ht_runner *runner, size_t refused);

#endif
