// SPDX-License-Identifier: Apache-2.0
// From what a child reported, and what the null child of the same round reported, to the figures of one run.
#ifndef HEAPTAPE_RUN_FIGURES_H
#define HEAPTAPE_RUN_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "form_builder.h"
#include "replay_job.h"
#include "timed_readings.h"

// A figure that was not measured is NaN here and null in JSON, never 0.
struct ht_function_figures {
    uint64_t count;
    double time_ns, touch_ns;  // of all calls of the function together
};

struct ht_time_figures {
    double alloc_time_ns, harness_time_ns, touch_time_ns, wait_time_ns, wall_ns, ns_per_call;
    double clock_cost_ns;
    uint64_t timed_calls, timed_calls_dropped;
    struct ht_function_figures functions[HT_FUNCTIONS];
};

// What a child read, by sample point.
struct ht_rss_samples {
    const uint64_t *at_bytes;
    const uint64_t *high_bytes;  // the highest since the point before, within calls too; NULL: as at_bytes
};

struct ht_memory_figures {
    double rss_peak_bytes, rss_mean_bytes, rss_end_bytes, rss_start_bytes;
    double rss_between_calls_peak_bytes;  // at sample points alone
    bool watched;                         // RSS was read within calls
    int watch_refusal;                    // why not: errno, or 0
    // With what the program held itself at the same moments; NaN where that is not known.
    double process_rss_peak_bytes, process_rss_end_bytes;
    double fragmentation[4];  // Johnstone & Wilson's F1 to F4
    double wait_time_ns, wall_ns;
    uint64_t *rss_bytes;   // by sample point, the null replayer's taken off
    uint64_t *high_bytes;  // likewise, the highest since the point before; in the memory of rss_bytes
    size_t count;
    size_t peak_sample;  // of the points that high_bytes is most of, that where most is live
};

// flat and timed: what the two children of a time pass showed; null_*: the null replayer, or the same
// pointers where this is the null replayer's own run. cold: the caches were polluted before each timed call,
// so the total is what the timed calls extrapolate to, and not the flat run's.
void ht_time_figures(const struct ht_built_form *built, const struct ht_outcome *flat,
                     const struct ht_timed_readings *timed, const struct ht_outcome *null_flat,
                     const struct ht_timed_readings *null_timed, bool cold, struct ht_time_figures *figures);

// Of the form's samples the one where this RSS is most, and of several such where most is live.
size_t ht_peak_sample(const struct ht_built_form *built, const uint64_t *rss_bytes, size_t samples);

// The null replayer's time as a share of all that was measured. NaN in its own figures, and in those of
// nothing.
double ht_harness_share(const struct ht_time_figures *figures);

// rss, null_rss: samples of this child and of the null child; null_rss NULL for the null's own run, whose
// figures are then all of its anonymous memory. own: the recorded program's own memory by sample, or NULL. What was watched is
// not set.
// Returns false without memory.
bool ht_memory_figures(const struct ht_built_form *built, const struct ht_outcome *outcome,
                       struct ht_rss_samples rss, const struct ht_outcome *null_outcome,
                       const uint64_t *null_rss, const uint64_t *own, struct ht_memory_figures *figures);

#endif
