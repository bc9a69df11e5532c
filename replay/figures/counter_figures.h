// SPDX-License-Identifier: Apache-2.0
// What the kernel and the processor counted over a flat run.
#ifndef HEAPTAPE_COUNTER_FIGURES_H
#define HEAPTAPE_COUNTER_FIGURES_H

#include <stdbool.h>

#include "child_figures.h"

struct ht_counter_figures {
    double perf[HT_PERF_EVENTS];  // NaN where not counted
    bool user_only;               // the processor's counters leave out what the kernel did
    uint32_t refusal;             // errno that says why the processor's are missing, 0 if none is
    double voluntary_switches, involuntary_switches;
};

extern const char *const ht_perf_names[HT_PERF_EVENTS];

// Why a counter cannot be had, for people.
const char *ht_perf_refusal_text(uint32_t refusal);

// null: the null replayer's of the same round, or NULL for its own. Its counts are taken off those of the
// processor, because they are the harness's work; those of the scheduler are reported as they are.
void ht_counter_figures(const struct ht_child_figures *child, const struct ht_child_figures *null,
                        struct ht_counter_figures *figures);

#endif
