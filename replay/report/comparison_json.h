// SPDX-License-Identifier: Apache-2.0
// The comparison as JSON for machines.
#ifndef HEAPTAPE_COMPARISON_JSON_H
#define HEAPTAPE_COMPARISON_JSON_H

#include <stdio.h>

#include "comparison.h"

// The replay held against the recording, as ht_baseline_json.
json_t *ht_comparison_check_json(const struct ht_comparison *comparison);

// Returns 0, or -1 if it could not be written.
int ht_comparison_print_json(FILE *out, const struct ht_comparison *comparison);

// What each condition came to, and by which allocators.
json_t *ht_fail_if_json(const struct ht_comparison *comparison);

#endif
