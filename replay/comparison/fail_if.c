// SPDX-License-Identifier: Apache-2.0
#include "fail_if.h"

#include <math.h>

// The comparison at one end of the interval.
static bool holds(const struct ht_condition *condition, double ratio) {
    if (condition->inclusive && ratio == condition->limit) return true;
    return condition->above ? ratio > condition->limit : ratio < condition->limit;
}

enum ht_condition_state ht_fail_if_state(const struct ht_condition *condition,
                                         const struct ht_interval *widened) {
    if (isnan(widened->low) || isnan(widened->high)) return HT_CONDITION_UNDECIDED;
    bool low = holds(condition, widened->low), high = holds(condition, widened->high);
    if (low != high) return HT_CONDITION_UNDECIDED;
    return low ? HT_CONDITION_HOLDS : HT_CONDITION_REFUTED;
}

double ht_fail_if_more_rounds(const struct ht_condition *condition, const struct ht_interval *widened) {
    if (isnan(widened->low) || isnan(widened->high) || widened->count < 2) return NAN;
    double half = (log(widened->high) - log(widened->low)) / 2, count = (double)widened->count;
    double distance = fabs(log(widened->estimate) - log(condition->limit));
    if (!(distance > 0)) return INFINITY;
    return fmax(1, ceil(count * half * half / (distance * distance) - count));
}

bool ht_fail_if_open(const struct ht_conditions *conditions, int figure, const struct ht_interval *widened) {
    for (size_t i = 0; i < conditions->count; i++) {
        const struct ht_condition *condition = &conditions->list[i];
        if (condition->figure != figure) continue;
        if (ht_fail_if_state(condition, widened) == HT_CONDITION_UNDECIDED) return true;
    }
    return false;
}
