// SPDX-License-Identifier: Apache-2.0
// What one participant showed in one round.
#ifndef HEAPTAPE_ROUND_CELL_H
#define HEAPTAPE_ROUND_CELL_H

#include <stdbool.h>

#include "baseline_check.h"
#include "counter_figures.h"
#include "decomposition.h"
#include "leftover_figures.h"
#include "run_figures.h"

// What the allocator made of the processors that it was shown, as it reports it; NaN where it does not.
struct ht_arena_figures {
    double used, most;
};

struct ht_round_cell {
    bool processors_asked;           // in the memory pass, with --cpus: for their number or the current one
    struct ht_arena_figures arenas;  // of the memory pass
    struct ht_time_figures time;
    struct ht_memory_figures memory;  // its samples are not kept
    struct ht_baseline_check check;   // of the memory pass under the recorded allocator
    struct ht_counter_figures counters;
    struct ht_leftover_figures leftovers;
    struct ht_decomposition decomposition;
};

#endif
