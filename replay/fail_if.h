// Conditions for scripts: --fail-if 'time>1.05' is met where an allocator's ratio to the baseline is shown to
// be above 1.05.
#ifndef HEAPTAPE_FAIL_IF_H
#define HEAPTAPE_FAIL_IF_H

#include <stdbool.h>
#include <stddef.h>

#include "ratio_interval.h"

enum { HT_CONDITIONS_MAX = 32 };

struct ht_condition {
    char text[64];  // as given
    int figure;     // enum ht_figure
    bool above;     // > or >=; else < or <=
    bool inclusive;
    double limit;
};

struct ht_conditions {
    struct ht_condition list[HT_CONDITIONS_MAX];
    size_t count;
};

// Adds FIGURE OPERATOR NUMBER. Returns what is wrong with it, or NULL.
const char *ht_fail_if_add(struct ht_conditions *conditions, const char *text);

// Whether all of the interval that verdicts go by meets the condition.
bool ht_fail_if_met(const struct ht_condition *condition, const struct ht_interval *widened);
// Whether a condition of that figure is neither shown to be met nor shown not to be.
bool ht_fail_if_open(const struct ht_conditions *conditions, int figure, const struct ht_interval *widened);

#endif
