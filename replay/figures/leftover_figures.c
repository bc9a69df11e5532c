// SPDX-License-Identifier: Apache-2.0
#include "leftover_figures.h"

#include <math.h>

static double less(uint64_t bytes, uint64_t off) {
    if (bytes == HT_FIGURE_UNKNOWN || off == HT_FIGURE_UNKNOWN) return NAN;
    return bytes > off ? (double)(bytes - off) : 0;
}

static const struct ht_kernel_view *at_peak(const struct ht_child_figures *child) {
    const struct ht_kernel_view *peak = &child->residency_end;
    for (uint32_t i = 0; i < child->residencies; i++) {
        if (child->residency[i].rss_bytes > peak->rss_bytes) peak = &child->residency[i];
    }
    return peak;
}

void ht_leftover_figures(const struct ht_child_figures *child, const struct ht_child_figures *null,
                         struct ht_leftover_figures *figures) {
    static const struct ht_child_figures nothing;
    const struct ht_child_figures *off = null ? null : &nothing;
    const struct ht_kernel_view *end = &child->residency_end, *off_end = &off->residency_end;
    const struct ht_kernel_view *peak = at_peak(child);
    *figures = (struct ht_leftover_figures){
        .rss_after_free_bytes = less(child->rss_after_free_bytes, off->rss_after_free_bytes),
        // The null replayer has nothing to purge: what it has after freeing is the harness's.
        .rss_after_purge_bytes =
            child->purged ? less(child->rss_after_purge_bytes, off->rss_after_free_bytes) : NAN,
        .lazyfree_bytes = less(end->lazyfree_bytes, off_end->lazyfree_bytes),
        .anon_huge_bytes = less(end->anon_huge_bytes, off_end->anon_huge_bytes),
        .swap_bytes = less(end->swap_bytes, off_end->swap_bytes),
        .lazyfree_peak_bytes = less(peak->lazyfree_bytes, off_end->lazyfree_bytes),
        .anon_huge_peak_bytes = less(peak->anon_huge_bytes, off_end->anon_huge_bytes),
        .swap_peak_bytes = less(peak->swap_bytes, off_end->swap_bytes),
    };
}
