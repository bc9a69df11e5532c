// SPDX-License-Identifier: Apache-2.0
// What has come of the conditions of --fail-if (conditions.h).
#ifndef HEAPTAPE_FAIL_IF_H
#define HEAPTAPE_FAIL_IF_H

#include <stdbool.h>

#include "conditions.h"
#include "ratio_interval.h"

enum ht_condition_state {
    HT_CONDITION_REFUTED,    // all of the interval is on the other side
    HT_CONDITION_UNDECIDED,  // the limit lies inside, or there is no interval
    HT_CONDITION_HOLDS       // all of the interval meets it
};

// By the interval that verdicts go by.
enum ht_condition_state ht_fail_if_state(const struct ht_condition *condition,
                                         const struct ht_interval *widened);
// About how many more rounds would decide it, as intervals shrink with the root of the rounds. NaN if there
// is no estimate, INFINITY where the estimate is the limit itself.
double ht_fail_if_more_rounds(const struct ht_condition *condition, const struct ht_interval *widened);
// Whether a condition of that figure is neither shown to be met nor shown not to be.
bool ht_fail_if_open(const struct ht_conditions *conditions, int figure, const struct ht_interval *widened);

#endif
