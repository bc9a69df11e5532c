// SPDX-License-Identifier: Apache-2.0
// What the simulation counted under one allocator, as the figure of a condition (conditions.h).
#ifndef HEAPTAPE_COUNTED_FIGURE_H
#define HEAPTAPE_COUNTED_FIGURE_H

#include <jansson.h>

#include "conditions.h"

// NaN: not counted.
double ht_counted_figure(const json_t *counts, const struct ht_condition *condition);
// All of the allocator's.
double ht_counted_instructions(const json_t *counts);

#endif
