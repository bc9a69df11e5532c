// SPDX-License-Identifier: Apache-2.0
// The calls by which the program controls its allocator, and which allocators obey them in replay, as they would.
#ifndef HEAPTAPE_CONTROL_REPORT_H
#define HEAPTAPE_CONTROL_REPORT_H

#include <jansson.h>

#include "allocator_choice.h"
#include "form_builder.h"

// All calls by name, with how often they were made, whether they change what an allocator does, whether the kernel obeys them,
// whoever serves, and the names of those that obey; an array.
json_t *ht_controls_json(const struct ht_control_counts *counts, const struct ht_choices *choices);
// The same for one allocator: by name, how often, and whether it obeys.
json_t *ht_run_controls_json(const struct ht_control_counts *counts, const struct ht_choice *choice);

#endif
