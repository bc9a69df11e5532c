// SPDX-License-Identifier: Apache-2.0
// Medians over the rounds of the figures beside time and RSS.
#ifndef HEAPTAPE_BESIDE_MEDIANS_H
#define HEAPTAPE_BESIDE_MEDIANS_H

#include "comparison.h"

struct ht_beside_medians {
    struct ht_counter_figures counters;
    struct ht_leftover_figures leftovers;
    double harness_share;
    struct ht_arena_figures arenas;
    bool processors_asked;                  // in any round
    struct ht_decomposition decomposition;  // of one run, so that its parts add up
};

// NaN where no round measured it.
struct ht_beside_medians ht_beside_medians(const struct ht_comparison *comparison, size_t choice);

#endif
