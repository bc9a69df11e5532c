// Instructions in calls of the allocator, counted by simulation: exact, and the same in each run.
#ifndef HEAPTAPE_INSTRUCTION_COUNT_H
#define HEAPTAPE_INSTRUCTION_COUNT_H

#include <stdbool.h>
#include <stddef.h>

struct ht_experiment;

// Counts for each allocator; what can't be counted stays NaN, with one line on stderr that says why. False once the user
// wants to stop.
bool ht_instructions_count(struct ht_experiment *experiment);

#endif
