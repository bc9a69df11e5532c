// SPDX-License-Identifier: Apache-2.0
// How long single calls took: the timed pass's readings as histograms, by function and by size.
#ifndef HEAPTAPE_LATENCY_FIGURES_H
#define HEAPTAPE_LATENCY_FIGURES_H

#include "child_figures.h"
#include "form_builder.h"
#include "latency_histogram.h"
#include "replay_job.h"

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

#endif
