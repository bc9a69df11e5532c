// SPDX-License-Identifier: Apache-2.0
// The runs of --pass count and --instructions: each allocator, and for the former the null replayer, once under simulation.
#ifndef HEAPTAPE_COUNT_RUNS_H
#define HEAPTAPE_COUNT_RUNS_H

#include "cost_model.h"
#include "experiment_state.h"

// Counts into experiment->counts, adds times by the model, keeps lines of results, and says on stderr what went wrong. Returns
// how many runs failed.
size_t ht_count_runs(struct ht_experiment *experiment, struct ht_cost_model *model);

// The count pass: the same, and prints the counts on stdout.
size_t ht_count_all(struct ht_experiment *experiment);
// After it: what came of the conditions, as ht_fail_if_say; writes the file of --write-baseline, or returns -1.
int ht_count_judge(const struct ht_experiment *experiment);
int ht_count_baseline(const struct ht_experiment *experiment, struct ht_error *error);

#endif
