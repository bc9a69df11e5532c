// SPDX-License-Identifier: Apache-2.0
// The runs of --pass count and --instructions: each allocator, and for the former the null replayer, once under simulation.
#ifndef HEAPTAPE_COUNT_RUNS_H
#define HEAPTAPE_COUNT_RUNS_H

#include <jansson.h>
#include <stdio.h>

#include "cost_model.h"
#include "runner.h"

// all: counts by allocator (jobs/count_runs.h). Prints nothing where none has a profile.
void ht_profile_print(FILE *out, const json_t *all);

// The runs of --pass count and --instructions: each allocator, and for the former the null replayer, once under simulation.

// Counts into runner->counts and runner->instructions, adds times by the model, keeps lines of results, and says on stderr what
// went wrong. Returns how many runs failed.
size_t ht_count_instructions(struct ht_runner *runner);

// The count pass: the same, and prints the counts on stdout; with --json it returns what is to be printed. NULL: nothing is.
json_t *ht_count_all(struct ht_runner *runner, size_t *failed);

#endif
