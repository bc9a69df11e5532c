// SPDX-License-Identifier: Apache-2.0
// What all runs of an experiment showed, round by round.
#ifndef HEAPTAPE_MEASUREMENTS_H
#define HEAPTAPE_MEASUREMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "baseline_check.h"
#include "choice_figures.h"
#include "counter_figures.h"
#include "decomposition.h"
#include "leftover_figures.h"
#include "run_figures.h"
#include "turn.h"

// What the allocator made of the processors that it was shown, as it reports it; NaN where it does not.
struct ht_arena_figures {
    double used, most;
};

// What one allocator showed in one round. The null replayer has such cells too, and so has the control: the
// baseline's second run. A pass that did not run in a round, or failed, is not ok.
struct ht_cell {
    bool time_ok, memory_ok;
    bool processors_asked;           // in the memory pass, with --cpus: for their number or the current one
    struct ht_arena_figures arenas;  // of the memory pass
    struct ht_time_figures time;
    double faults;                    // minor and major, of the time pass where there is one
    struct ht_memory_figures memory;  // its samples are not kept
    struct ht_baseline_check check;   // of the memory pass under the recorded allocator
    struct ht_counter_figures counters;
    struct ht_leftover_figures leftovers;
    struct ht_decomposition decomposition;
};

struct ht_measurements {
    size_t choices;  // allocators; cells of a round: the null replayer, these, the control
    uint32_t rounds;
    struct ht_choice_figures *of_choices;  // the null replayer's first, then one for each choice
    struct ht_cell *cells;                 // [round * (choices + 2) + who], see turn.h
};

// Whose cell: see turn.h.
static inline struct ht_cell *ht_cell_of(const struct ht_measurements *m, uint32_t round, size_t who) {
    return &m->cells[round * (m->choices + 2) + who];
}
static inline struct ht_cell *ht_null_cell(const struct ht_measurements *m, uint32_t round) {
    return ht_cell_of(m, round, HT_WHO_NULL);
}
static inline struct ht_cell *ht_cell(const struct ht_measurements *m, uint32_t round, size_t choice) {
    return ht_cell_of(m, round, 1 + choice);
}

#endif
