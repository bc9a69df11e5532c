// All runs of one replay set against each other: medians, paired ratios to the baseline, verdicts.
#ifndef HEAPTAPE_COMPARISON_H
#define HEAPTAPE_COMPARISON_H

#include <stdbool.h>
#include <stdio.h>

#include "allocator_choice.h"
#include "failing_runs.h"
#include "ratio_interval.h"
#include "recorded_program.h"
#include "replay_options.h"
#include "run_figures.h"

// What one allocator showed in one round. The null replayer has such cells too.
struct ht_cell {
    bool time_ok, memory_ok;
    struct ht_time_figures time;
    double faults;                    // minor and major, of the time pass where there is one
    struct ht_memory_figures memory;  // its samples are not kept
};

struct ht_measurements {
    size_t choices;  // allocators; cells of a round: the null replayer first, then these
    uint32_t rounds;
    struct ht_cell *cells;  // [round * (choices + 1) + 1 + choice]
};

struct ht_estimate {
    double median;
    struct ht_interval ratio;
    enum ht_verdict verdict;
};

struct ht_allocator_estimates {
    size_t time_runs, memory_runs;
    struct ht_estimate time_ns, rss_peak, rss_mean, rss_end;
    double ns_per_call, faults, wait_ns, fragmentation[4];
    struct ht_function_figures functions[HT_FUNCTIONS];
};

struct ht_comparison {
    const struct ht_replay_options *options;
    const struct ht_recorded_program *program;
    const struct ht_built_form *built;
    size_t count, baseline;
    struct ht_allocator_estimates allocators[HT_CHOICES_MAX];
    double harness_ns, null_rss_bytes, clock_cost_ns;  // the null replayer's, median
    uint64_t timed_calls;
    size_t rounds, failed_runs;
    const struct ht_failing_runs *failing;  // by allocator
};

static inline struct ht_cell *ht_cell(const struct ht_measurements *m, uint32_t round, size_t choice) {
    return &m->cells[round * (m->choices + 1) + 1 + choice];
}
static inline struct ht_cell *ht_null_cell(const struct ht_measurements *m, uint32_t round) {
    return &m->cells[round * (m->choices + 1)];
}

// options, program, built, baseline and failed_runs are set; fills in the rest. Returns false without memory.
bool ht_compare(const struct ht_measurements *measurements, struct ht_comparison *comparison);

void ht_comparison_print(FILE *out, const struct ht_comparison *comparison);
// Returns 0, or -1 if it could not be written.
int ht_comparison_print_json(FILE *out, const struct ht_comparison *comparison);
// The allocator that served the recorded program, if it was replayed: its index, or -1.
int ht_comparison_recorded(const struct ht_comparison *comparison);

#endif
