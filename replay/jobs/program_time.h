// SPDX-License-Identifier: Apache-2.0
// The program's modelled time under each allocator, from the counts of --splice.
#ifndef HEAPTAPE_PROGRAM_TIME_H
#define HEAPTAPE_PROGRAM_TIME_H

#include <jansson.h>
#include <stdio.h>

#include "cost_model.h"

// counts: a process's counts by allocator, as the tool leaves them; each gets "program_time": the modelled "ns" of the
// program with its allocator, of that the "allocator_ns" and what the program's "misses_ns" are, the "ratio" to the
// baseline's, and its interval of some 90 % by what the costs can be off, and the sample ("ratio_low", "ratio_high").
void ht_program_time_add(json_t *counts, const struct ht_cost_model *model, const char *baseline);
void ht_program_time_print(FILE *out, const json_t *counts, const char *baseline);

#endif
