// SPDX-License-Identifier: Apache-2.0
// The experiment: the schedule's turns run in children, and their results.
#ifndef HEAPTAPE_EXPERIMENT_H
#define HEAPTAPE_EXPERIMENT_H

#include "experiment_state.h"

struct ht_run_result;

// Asks a choice who it is: path, version and build id. False, with one line in problem, if it cannot prove it.
bool ht_experiment_describe(struct ht_experiment *experiment, struct ht_choice *choice, char *problem,
                            size_t room);

// Appends a line to the results, where there is to be one; what it says of the experiment is filled in.
void ht_experiment_keep(struct ht_experiment *experiment, struct ht_run_result *line);

// Runs the rounds (schedule.h). Returns 0; -1 if it had to end early.
int ht_experiment_run(struct ht_experiment *experiment);

void ht_experiment_free(struct ht_experiment *experiment);

#endif
