// SPDX-License-Identifier: Apache-2.0
// A straight line through equally spaced values, with an interval of its slope that allows for a level that wanders.
#ifndef HEAPTAPE_SLOPE_H
#define HEAPTAPE_SLOPE_H

#include <stdbool.h>
#include <stddef.h>

// ---- what live bytes do without a trend ----
//
// Each value has a noise of its own, of the requests that are just served, and lies upon a level
// that wanders, because blocks that live long come and go by chance. A wander comes back in a time that may be longer than what
// is seen of it, and noise hides it.

struct wander {
    double back_steps;  // the time in which it comes back, in steps from one value to the next
    double
        share;  // variance of its changes in a step, over that of the noise; 0: noise alone, INFINITY: no noise
};

// There are some of every kind, from noise alone to a walk that does not come back.
enum { WANDERS = 17, WANDER_VALUES_MAX = 64 };
extern const struct wander wanders[WANDERS];

// Covariances of two values by their distance in steps, up to a factor. Values are means over their steps.
void wander_covariances(const struct wander *wander, double *covariances, size_t count);

// Divides columns of so many values each into parts that are independent of each other, with variance 1, given these covariances.
// Returns the logarithm of the factor by which that changes volumes.
double wander_whiten(const double *covariances, size_t count, double *const *columns, size_t columns_count);

// ---- the line ----

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
