// SPDX-License-Identifier: Apache-2.0
// The leader by a figure, and the allocators that do not clearly differ from it. Every sentence about who is
// best, and what that would save, comes from here, so that none says as a fact what the verdicts leave open,
// and no two contradict each other. The Python package does the same sums
// (analysis/heaptape/results/standing.py).
#ifndef HEAPTAPE_STANDING_H
#define HEAPTAPE_STANDING_H

#include "comparison.h"

struct ht_standing {
    int leader;                 // -1: the baseline was not measured
    bool tied[HT_CHOICES_MAX];  // measured, and not shown to be behind the leader; never the leader itself
    size_t tied_count;
};

// Where some allocator's verdict is that it has less than the baseline, the leader is the one of these with
// the least ratio, by name where two have it; else it is the baseline.
struct ht_standing ht_standing_of(const struct ht_comparison *comparison, enum ht_figure figure);

// What the leader has of what another one has, as a ratio. Its verdict is HT_VERDICT_LESS where it is shown
// to have less, and says so only where the standing agrees.
struct ht_estimate ht_standing_lead(const struct ht_comparison *comparison, enum ht_figure figure,
                                    const struct ht_standing *standing, size_t over);

#endif
