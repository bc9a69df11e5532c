// SPDX-License-Identifier: Apache-2.0
// A straight line through equally spaced values, with an interval of its slope that allows for a level that wanders.
#ifndef HEAPTAPE_SLOPE_H
#define HEAPTAPE_SLOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "wander.h"

enum { SLOPE_VALUES_MIN = 6, SLOPE_VALUES_MAX = WANDER_VALUES_MAX };

// All per step from one value to the next.
struct slope {
    double mean;             // of the values
    double step, low, high;  // the slope and its 95 % interval
    // By ordinary least squares, with its standard error if values had nothing to do with each other: what happened, and not
    // what it tells of other times.
    double plain, plain_error;
};

// count: SLOPE_VALUES_MIN to SLOPE_VALUES_MAX.
struct slope slope_of(const double *values, size_t count);

// Is the slope shown to be another than 0?
static inline bool slope_resolved(const struct slope *slope) { return slope->low > 0 || slope->high < 0; }

// Are two slopes, of values that have nothing to do with each other, shown to differ?
bool slopes_differ(const struct slope *a, const struct slope *b);

#endif
