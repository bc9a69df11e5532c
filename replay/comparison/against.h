// SPDX-License-Identifier: Apache-2.0
// What conditions are judged by: an allocator's figure as a ratio to the baseline's, or to an earlier run's.
#ifndef HEAPTAPE_AGAINST_H
#define HEAPTAPE_AGAINST_H

#include "comparison.h"

struct ht_against {
    double now, then;            // medians, or counts; NaN: not known
    struct ht_interval ratio;    // a count's is exact: its ends are the ratio
    struct ht_interval widened;  // by the control, or by the earlier run's own rounds
};

// Whether this allocator is compared with anything.
bool ht_is_compared(const struct ht_comparison *comparison, size_t choice);
struct ht_against ht_against(const struct ht_comparison *comparison, const struct ht_condition *condition,
                             size_t choice);

#endif
