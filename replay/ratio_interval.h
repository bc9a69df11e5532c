// Estimates with honest intervals: the median of paired ratios, its bootstrap interval, and what that says.
#ifndef HEAPTAPE_RATIO_INTERVAL_H
#define HEAPTAPE_RATIO_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

#include "random_numbers.h"

enum ht_verdict {
    HT_VERDICT_NONE,       // nothing to compare
    HT_VERDICT_LESS,       // faster, smaller
    HT_VERDICT_MORE,       // slower, larger
    HT_VERDICT_SAME,       // within 1 %
    HT_VERDICT_UNRESOLVED  // the interval allows more than one of these
};

struct ht_interval {
    double estimate, low, high;  // NaN where there is nothing to tell it from
    size_t count;
};

// The median of count values (which are reordered). NaN for none.
double ht_median(double *values, size_t count);

// Median of ratios[0..count), with a 95 % interval from 2,000 resamples. One ratio has no interval.
struct ht_interval ht_ratio_interval(const double *ratios, size_t count, struct ht_random *random);

enum ht_verdict ht_verdict(const struct ht_interval *ratio);

#endif
