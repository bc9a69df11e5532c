// SPDX-License-Identifier: Apache-2.0
// Estimates with honest intervals: the median of paired ratios, its interval, and what that says. The Python
// package does the same sums with the same random numbers (analysis/heaptape/results/comparison.py); a test
// holds the two against each other.
#ifndef HEAPTAPE_RATIO_INTERVAL_H
#define HEAPTAPE_RATIO_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

enum ht_verdict {
    HT_VERDICT_NONE,       // nothing to compare
    HT_VERDICT_LESS,       // faster, smaller
    HT_VERDICT_MORE,       // slower, larger
    HT_VERDICT_SAME,       // within 1 %
    HT_VERDICT_UNRESOLVED  // the interval allows more than one of these
};

struct ht_interval {
    double estimate, low, high;  // NaN where there is nothing to compare with
    size_t count;
};

enum { HT_BOOTSTRAP_ROUNDS_MIN = 6 };
extern const double ht_confidence;          // 0.95, what is shown
extern const double ht_interim_confidence;  // 0.995, what ends an experiment of open length

// The median of count values (which are reordered). NaN for none.
double ht_median(double *values, size_t count);

// Median of those of ratios[0..count) that are positive and finite, with its interval: percentile bootstrap,
// or, below HT_BOOTSTRAP_ROUNDS_MIN, Student's t on the logarithms (of 95 % only). One ratio has no interval.
struct ht_interval ht_ratio_interval(const double *ratios, size_t count, double confidence);

// The interval that a verdict goes by: wider by what the control (the baseline against itself) shows. The
// furthest end of the control's interval from equality is an error, which adds to each side in quadrature, in
// logarithms. A control without an interval adds nothing.
struct ht_interval ht_widened(const struct ht_interval *ratio, const struct ht_interval *control);

enum ht_verdict ht_verdict(const struct ht_interval *widened);

// About how many more rounds would resolve it, as intervals shrink with the root of the rounds: the cheaper
// of an interval that clears equality and one that fits within 1 % of it. NaN if it is unknown.
double ht_more_rounds(const struct ht_interval *widened);

// Nobody waits for more rounds than these, and a larger estimate is not reliable.
enum { HT_MORE_ROUNDS_MAX = 1000 };
// "needs about 35 more rounds", or "needs over 1,000 more rounds". Not for NaN.
const char *ht_more_rounds_text(double more_rounds, char text[64]);

#endif
