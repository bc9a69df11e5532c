// SPDX-License-Identifier: Apache-2.0
// Latencies, counters, system calls, slop and what is left over, as JSON.
#ifndef HEAPTAPE_FIGURES_JSON_H
#define HEAPTAPE_FIGURES_JSON_H

#include <jansson.h>

#include "run_result.h"

// Into a line of results. What was not measured in that run is null.
void ht_figures_json_add(json_t *run, const struct ht_run_result *line);

// Into its timeline: the allocator's reports and the kernel's figures, each with a time axis of its own.
void ht_figures_json_curves(json_t *timeline, const struct ht_run_result *line);

// What is known of a choice over all rounds: latencies, system calls, slop and its own reports.
json_t *ht_figures_json_choice(const struct ht_choice_figures *figures);

#endif
