// SPDX-License-Identifier: Apache-2.0
// Where each allocator's instructions are: a table of functions, from the stacks that --profile samples.
#ifndef HEAPTAPE_PROFILE_TEXT_H
#define HEAPTAPE_PROFILE_TEXT_H

#include <jansson.h>
#include <stdio.h>

// all: counts by allocator (jobs/count_runs.h). Prints nothing where none has a profile.
void ht_profile_print(FILE *out, const json_t *all);

#endif
