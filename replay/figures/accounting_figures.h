// SPDX-License-Identifier: Apache-2.0
// What the accounting pass of one allocator showed.
#ifndef HEAPTAPE_ACCOUNTING_FIGURES_H
#define HEAPTAPE_ACCOUNTING_FIGURES_H

#include <stdbool.h>

#include "child_figures.h"
#include "form_builder.h"

struct ht_accounting_figures {
    struct ht_child_figures *child;  // NULL: nothing was measured
    int64_t *slop_bytes;             // by sample of RSS
    uint64_t *untouched_bytes;       // likewise: of what is usable, what the replay did not write to
    // Usable less requested, of what is live: where most is live, on average over trace time, at the end.
    // NaN where the allocator doesn't report what is usable.
    double slop_peak_bytes, slop_mean_bytes, slop_end_bytes;
};

// samples, untouched: as the child left them, built->form->samples of each. Returns false without memory.
bool ht_accounting_figures(const struct ht_built_form *built, const struct ht_child_figures *child,
                           const uint64_t *samples, const uint64_t *untouched,
                           struct ht_accounting_figures *figures);
// The report nearest to where most was live, or NULL.
const struct ht_report_row *ht_report_at_peak(const struct ht_accounting_figures *figures);
void ht_accounting_figures_free(struct ht_accounting_figures *figures);

#endif
