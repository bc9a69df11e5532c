// SPDX-License-Identifier: Apache-2.0
#include "decomposition.h"

#include <assert.h>
#include <math.h>

static void take_apart(struct ht_decomposition_part *part, bool knows_usable) {
    double usable_bytes = part->requested_bytes + (knows_usable ? part->internal_bytes : 0);
    part->other_bytes = part->rss_bytes - (usable_bytes - part->untouched_bytes);
    if (!knows_usable) part->internal_bytes = NAN;
}

void ht_decomposition_unknown(struct ht_decomposition *decomposition) {
    static_assert(sizeof *decomposition % sizeof(double) == 0, "nothing but figures");
    for (size_t i = 0; i < sizeof *decomposition / sizeof(double); i++) ((double *)decomposition)[i] = NAN;
}

void ht_decompose(const struct ht_built_form *built, const struct ht_memory_figures *memory,
                  const struct ht_leftover_figures *leftovers, const struct ht_accounting_figures *accounting,
                  struct ht_decomposition *decomposition) {
    const struct ht_child_figures *child = accounting->child;
    ht_decomposition_unknown(decomposition);
    if (!child || memory->count == 0) return;
    size_t peak = memory->peak_sample;
    const struct ht_report_row *end = &child->report_end;
    decomposition->peak = (struct ht_decomposition_part){
        .rss_bytes = memory->rss_peak_bytes,
        .requested_bytes = (double)built->points[peak].live_bytes,
        .internal_bytes = (double)accounting->slop_bytes[peak],
        .untouched_bytes = (double)accounting->untouched_bytes[peak],
        .in_call_bytes = memory->rss_peak_bytes - (double)memory->rss_bytes[peak],
        .lazyfree_bytes = leftovers->lazyfree_peak_bytes};
    decomposition->end =
        (struct ht_decomposition_part){.rss_bytes = memory->rss_end_bytes,
                                       .requested_bytes = (double)end->live_bytes,
                                       .internal_bytes = (double)end->usable_bytes - (double)end->live_bytes,
                                       .untouched_bytes = (double)child->untouched_end_bytes,
                                       .lazyfree_bytes = leftovers->lazyfree_bytes};
    take_apart(&decomposition->peak, child->knows_usable);
    take_apart(&decomposition->end, child->knows_usable);
    decomposition->after_free_bytes = leftovers->rss_after_free_bytes;
    decomposition->after_purge_bytes = leftovers->rss_after_purge_bytes;
}
