// SPDX-License-Identifier: Apache-2.0
// What live bytes do without a trend: each value has a noise of its own, of the requests that are just served, and lies upon a level
// that wanders, because blocks that live long come and go by chance. A wander comes back in a time that may be longer than what
// is seen of it, and noise hides it.
#ifndef HEAPTAPE_WANDER_H
#define HEAPTAPE_WANDER_H

#include <stddef.h>

struct wander {
    double back_steps;  // the time in which it comes back, in steps from one value to the next
    double
        share;  // variance of its changes in a step, over that of the noise; 0: noise alone, INFINITY: no noise
};

// Of every kind, from noise alone to a walk that does not come back.
enum { WANDERS = 17, WANDER_VALUES_MAX = 64 };
extern const struct wander wanders[WANDERS];

// Covariances of two values by their distance in steps, up to a factor. Values are means over their steps.
void wander_covariances(const struct wander *wander, double *covariances, size_t count);

// Divides columns of so many values each into parts that are independent of each other, with variance 1, given these covariances.
// Returns the logarithm of the factor by which that changes volumes.
double wander_whiten(const double *covariances, size_t count, double *const *columns, size_t columns_count);

#endif
