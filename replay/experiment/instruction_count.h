// SPDX-License-Identifier: Apache-2.0
// Instructions in calls of the allocator, counted by simulation: exact, and the same in each run.
#ifndef HEAPTAPE_INSTRUCTION_COUNT_H
#define HEAPTAPE_INSTRUCTION_COUNT_H

#include <stdbool.h>
#include <stddef.h>

struct ht_experiment;

// Before the rounds, counts for each allocator if that is asked for; what is not counted stays NaN, with one line on stderr
// where it cannot be. False once the user wants to stop.
bool ht_instructions_count(struct ht_experiment *experiment);

#endif
