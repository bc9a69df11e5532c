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

enum ht_condition_state {
    HT_CONDITION_REFUTED,    // all of the interval is on the other side
    HT_CONDITION_UNDECIDED,  // the limit lies inside, or there is no interval
    HT_CONDITION_HOLDS       // all of the interval meets it
};

// By the interval that verdicts go by.
enum ht_condition_state ht_fail_if_state(const struct ht_condition *condition,
                                         const struct ht_interval *widened);
// About how many more rounds would decide it, as intervals shrink with the root of the rounds. NaN if there is
// no telling, INFINITY where the estimate is the limit itself.
double ht_fail_if_more_rounds(const struct ht_condition *condition, const struct ht_interval *widened);
// Whether a condition of that figure is neither shown to be met nor shown not to be.
bool ht_fail_if_open(const struct ht_conditions *conditions, int figure, const struct ht_interval *widened);

#endif
