// SPDX-License-Identifier: Apache-2.0
// Which warnings an experiment deserves.
#ifndef HEAPTAPE_EXPERIMENT_WARNINGS_H
#define HEAPTAPE_EXPERIMENT_WARNINGS_H

#include "comparison.h"
#include "experiment_state.h"
#include "machine_activity.h"

// Adds them to warnings. before: the machine's counters when the experiment began.
void ht_experiment_warnings(const struct ht_experiment *experiment, const struct ht_comparison *comparison,
                            const struct ht_activity *before, struct ht_warnings *warnings);

#endif
