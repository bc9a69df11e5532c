// SPDX-License-Identifier: Apache-2.0
// All runs of one replay set against each other: medians, paired ratios to the baseline, verdicts.
#ifndef HEAPTAPE_COMPARISON_H
#define HEAPTAPE_COMPARISON_H

#include <stdbool.h>

#include <jansson.h>

#include "earlier.h"
#include "failing_runs.h"
#include "limit_result.h"
#include "measurements.h"
#include "ratio_interval.h"
#include "recorded_program.h"
#include "replay_plan.h"
#include "replay_warnings.h"

struct ht_estimate {
    double median, minimum;
    struct ht_interval ratio;    // to the baseline, as shown
    struct ht_interval widened;  // by the control: what the verdict goes by
    enum ht_verdict verdict;
    double more_rounds;  // about so many would resolve it; NaN unless unresolved
    uint32_t *outliers;  // rounds whose run stands out, outliers_count of them
    size_t outliers_count;
};

struct ht_allocator_estimates {
    size_t time_runs, memory_runs;
    struct ht_estimate time_ns, rss_peak, rss_mean, rss_end, process_rss_peak;
    double rss_between_calls_peak;  // median
    bool unwatched;                 // in some run RSS was not read within calls
    int watch_refusal;              // why not: errno, or 0
    double ns_per_call, faults, wait_ns, fragmentation[4];
    struct ht_function_figures functions[HT_FUNCTIONS];
};

// Whether its peak lies between two readings, within a call as a rule, in which more was resident than at any reading.
static inline bool ht_peak_within_call(const struct ht_allocator_estimates *estimates) {
    return estimates->rss_between_calls_peak < 0.95 * estimates->rss_peak.median;
}

struct ht_comparison {
    const struct ht_plan *plan;
    const struct ht_recorded_program *program;
    const struct ht_built_form *built;
    const struct ht_measurements *measurements;
    size_t count, baseline;
    struct ht_allocator_estimates allocators[HT_CHOICES_MAX];
    bool controlled;                                   // the baseline ran twice in each round
    struct ht_interval controls[HT_FIGURES];           // ratio of its second run to its first
    struct ht_baseline_check check;                    // of the round whose peak error is the median
    double harness_ns, null_rss_bytes, clock_cost_ns;  // the null replayer's, median
    uint64_t timed_calls;
    size_t rounds, failed_runs;
    uint32_t repeats;                  // of the trace in each flat run
    const double *instructions;        // by allocator, NaN where not counted
    const json_t *counts;              // by the allocator's name; NULL: nothing is counted
    const struct ht_earlier *earlier;  // compare with that run instead of the baseline; NULL: none
    const struct ht_warnings *warnings;
    const char *thp;                        // transparent huge pages of all runs, empty if not known
    const struct ht_failing_runs *failing;  // by allocator
    const struct ht_limit_result *limits;   // likewise, or NULL
    const char *limit_by;
};

static inline const struct ht_estimate *ht_estimate_of(const struct ht_allocator_estimates *estimates,
                                                       enum ht_figure figure) {
    const struct ht_estimate *const list[HT_FIGURES] = {&estimates->time_ns, &estimates->rss_peak,
                                                        &estimates->rss_mean, &estimates->rss_end,
                                                        &estimates->process_rss_peak};
    return list[figure];
}

// The ratios of one figure, choice to baseline; confidence is that of both intervals, the control's too.
void ht_compare_figure(const struct ht_measurements *measurements, enum ht_figure figure, size_t choice,
                       size_t baseline, double confidence, struct ht_estimate *estimate);

// What the rounds showed of one figure, into values, of which there is room for each round. Returns how many.
size_t ht_compared_values(const struct ht_measurements *measurements, enum ht_figure figure, size_t choice,
                          double *values);

// The ratios of one allocator to another, neither of which need be the baseline, widened by the comparison's
// control. Of the estimate, its ratio, what it is widened to, and the verdict are set.
struct ht_estimate ht_compare_pair(const struct ht_comparison *comparison, enum ht_figure figure,
                                   size_t choice, size_t other);

// options, program, built, baseline and failed_runs are set; fills in the rest. Returns false without memory.
bool ht_compare(const struct ht_measurements *measurements, struct ht_comparison *comparison);
void ht_comparison_free(struct ht_comparison *comparison);

// The allocator of the recorded program, if it was replayed: its index, or -1.
int ht_comparison_recorded(const struct ht_comparison *comparison);

// Whether the program's allocator is part of it, and none of these: then its recorded memory is what theirs is held against.
bool ht_comparison_is_of_own(const struct ht_comparison *comparison);
// What the process would hold at its peak under an allocator, of what it held when recorded; NaN where that is not known.
double ht_comparison_of_recorded(const struct ht_comparison *comparison, size_t allocator);

#endif
