// SPDX-License-Identifier: Apache-2.0
// Counts of durations in buckets whose width grows with the duration, as in HdrHistogram: eight
// significant bits, so that a value is known within 0.4 %, whatever its size and however many are counted.
#ifndef HEAPTAPE_LATENCY_HISTOGRAM_H
#define HEAPTAPE_LATENCY_HISTOGRAM_H

#include <stdint.h>

struct ht_histogram {
    uint64_t total, highest;
    uint64_t *counts;  // NULL while there are none
};

// Returns 0, or -1 without memory.
int ht_histogram_add(struct ht_histogram *histogram, uint64_t value, uint64_t times);
int ht_histogram_merge(struct ht_histogram *into, const struct ht_histogram *from);

// The least value that at least this share of all values do not exceed: the middle of its bucket, but never
// more than the highest value. NaN where there is none.
double ht_histogram_quantile(const struct ht_histogram *histogram, double share);

void ht_histogram_free(struct ht_histogram *histogram);

#endif
