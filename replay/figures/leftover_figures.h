// SPDX-License-Identifier: Apache-2.0
// What of the memory was left at the end of a memory run, after freeing everything, and after a purge.
#ifndef HEAPTAPE_LEFTOVER_FIGURES_H
#define HEAPTAPE_LEFTOVER_FIGURES_H

#include "child_figures.h"

// Bytes, NaN where not measured.
struct ht_leftover_figures {
    double rss_after_free_bytes, rss_after_purge_bytes;
    double lazyfree_bytes, anon_huge_bytes, swap_bytes;                 // at the end
    double lazyfree_peak_bytes, anon_huge_peak_bytes, swap_peak_bytes;  // where RSS was most, as far as read
};

// null: the null replayer's of the same round, whose bytes are taken off, or NULL for its own.
void ht_leftover_figures(const struct ht_child_figures *child, const struct ht_child_figures *null,
                         struct ht_leftover_figures *figures);

#endif
