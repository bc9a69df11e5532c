// SPDX-License-Identifier: Apache-2.0
// Each allocator beside the earlier run of --baseline-file.
#ifndef HEAPTAPE_EARLIER_REPORT_H
#define HEAPTAPE_EARLIER_REPORT_H

#include <stdio.h>

#include "comparison.h"

void ht_earlier_print(FILE *out, const struct ht_comparison *comparison);
json_t *ht_earlier_json(const struct ht_comparison *comparison);

#endif
