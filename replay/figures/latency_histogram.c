// SPDX-License-Identifier: Apache-2.0
#include "latency_histogram.h"

#include <math.h>
#include <stdlib.h>

// Values below 2^BITS have buckets of their own; above, each octave is divided into 2^(BITS-1).
enum { BITS = 8, OWN = 1 << BITS, OCTAVE = OWN / 2, SHIFT_MAX = 40, BUCKETS = OWN + SHIFT_MAX * OCTAVE };

static unsigned bucket_of(uint64_t value) {
    if (value < OWN) return (unsigned)value;
    unsigned shift = 64 - BITS - (unsigned)__builtin_clzll(value);
    if (shift > SHIFT_MAX) return BUCKETS - 1;
    return OWN + (shift - 1) * OCTAVE + (unsigned)(value >> shift) - OCTAVE;
}

static double middle_of(unsigned bucket) {
    if (bucket < OWN) return bucket;
    unsigned shift = (bucket - OWN) / OCTAVE + 1;
    uint64_t lowest = (uint64_t)((bucket - OWN) % OCTAVE + OCTAVE) << shift;
    return (double)lowest + (double)((1ull << shift) - 1) / 2;
}

int ht_histogram_add(struct ht_histogram *histogram, uint64_t value, uint64_t times) {
    if (!histogram->counts) histogram->counts = calloc(BUCKETS, sizeof *histogram->counts);
    if (!histogram->counts) return -1;
    histogram->counts[bucket_of(value)] += times;
    histogram->total += times;
    if (value > histogram->highest) histogram->highest = value;
    return 0;
}

int ht_histogram_merge(struct ht_histogram *into, const struct ht_histogram *from) {
    if (!from->counts) return 0;
    if (ht_histogram_add(into, from->highest, 0)) return -1;
    for (unsigned i = 0; i < BUCKETS; i++) into->counts[i] += from->counts[i];
    into->total += from->total;
    return 0;
}

double ht_histogram_quantile(const struct ht_histogram *histogram, double share) {
    uint64_t rank = (uint64_t)ceil(share * (double)histogram->total), seen = 0;
    if (!histogram->total) return NAN;
    if (rank < 1) rank = 1;
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen >= rank) return fmin(middle_of(i), (double)histogram->highest);
    }
    return (double)histogram->highest;
}

void ht_histogram_free(struct ht_histogram *histogram) {
    free(histogram->counts);
    *histogram = (struct ht_histogram){0};
}
