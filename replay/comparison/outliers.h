// SPDX-License-Identifier: Apache-2.0
// Runs that stand out from the others of their allocator: flagged, never left out.
#ifndef HEAPTAPE_OUTLIERS_H
#define HEAPTAPE_OUTLIERS_H

#include <stdbool.h>
#include <stddef.h>

// Flags values[i], NaN being no value, whose modified z-score is above 3.5: 0.6745 times the distance from
// the median in units of the median absolute deviation, and where that is 0, the distance over 1.2533 mean
// absolute deviations (Iglewicz & Hoaglin, "How to Detect and Handle Outliers", 1993, section 3.3). scratch
// holds count values. Returns how many.
size_t ht_outliers(const double *values, size_t count, double *scratch, bool *flags);

#endif
