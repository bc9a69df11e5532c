// SPDX-License-Identifier: Apache-2.0
// Counters of the kernel and the processor over what all threads of this process do.
#ifndef HEAPTAPE_PERF_COUNTERS_H
#define HEAPTAPE_PERF_COUNTERS_H

#include "child_figures.h"

struct ht_perf_counters {
    int fds[HT_PERF_EVENTS];  // -1: none
    struct ht_perf_count *counts;
};

// Opens what is permitted, before there are threads: they inherit it.
void ht_perf_open(struct ht_perf_counters *counters, struct ht_perf_count *counts);
// What is done between begin and pause is counted, each time.
void ht_perf_begin(struct ht_perf_counters *counters);
void ht_perf_pause(struct ht_perf_counters *counters);
void ht_perf_end(struct ht_perf_counters *counters);  // fills counts

#endif
