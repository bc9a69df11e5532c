// SPDX-License-Identifier: Apache-2.0
// How long single calls took: the timed pass's readings as histograms, by function and by size.
#ifndef HEAPTAPE_LATENCY_FIGURES_H
#define HEAPTAPE_LATENCY_FIGURES_H

#include <stdint.h>

#include "child_figures.h"
#include "form_builder.h"
#include "replay_job.h"

// Counts of durations in buckets whose width grows with the duration, as in HdrHistogram: eight
// significant bits, so that a value is known within 0.4 %, whatever its size and however many are counted.
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

struct ht_latencies {
    struct ht_histogram functions[HT_FUNCTIONS];
    struct ht_histogram sizes[HT_KINDS][HT_SIZE_CLASSES];  // by enum ht_kind; of free and query the block's
    uint64_t taken, dropped;                               // dropped: the thread was switched out meanwhile
    double floor_ns;  // what two clock readings in a row show, the least seen; off every value
};

extern const char *const ht_latency_kind_names[HT_KINDS];

struct ht_percentiles {
    uint64_t count;
    double p50_ns, p90_ns, p99_ns, p999_ns, max_ns;
};

// Adds one run's readings. Returns 0, or -1 without memory.
int ht_latencies_add(struct ht_latencies *latencies, const struct ht_built_form *built,
                     const struct ht_reading *readings, const struct ht_outcome *outcome);
int ht_latencies_merge(struct ht_latencies *into, const struct ht_latencies *from);
struct ht_percentiles ht_percentiles_of(const struct ht_histogram *histogram);
void ht_latencies_free(struct ht_latencies *latencies);

// What calls cost along the trace: the timed pass's readings, summed by the stretches after which accounts are taken.

// Three, where these take long.
enum { HT_STRETCH_ROUNDS = 5, HT_STRETCH_ROUNDS_LEAST = 3 };

// Of each round: the calls that were timed, and their time with the first touch of what they returned; both include
// what reading the clock costs.
struct ht_stretch_costs {
    uint32_t rounds;
    uint64_t calls[HT_STRETCH_ROUNDS][HT_STRETCHES_MAX];
    double ns[HT_STRETCH_ROUNDS][HT_STRETCHES_MAX];
};

// One more round. sample: the last ones of the stretches. readings: built->form->readings of them, as the child left them.
void ht_stretch_costs_add(struct ht_stretch_costs *costs, const struct ht_built_form *built,
                          const uint32_t *sample, uint32_t stretches, const struct ht_reading *readings,
                          const struct ht_outcome *outcome);

#endif
