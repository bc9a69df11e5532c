// SPDX-License-Identifier: Apache-2.0
#include "accounting_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Over trace time, like mean RSS; of a trace that took no time the plain mean.
static double mean_slop(const struct ht_built_form *built, const int64_t *slop_bytes) {
    uint32_t count = built->form->samples;
    double sum = 0, weights = 0, plain = 0;
    for (uint32_t i = 0; i < count; i++) {
        double weight = i + 1 < count ? (double)(built->points[i + 1].time_ns - built->points[i].time_ns) : 0;
        sum += weight * (double)slop_bytes[i];
        weights += weight;
        plain += (double)slop_bytes[i];
    }
    return weights > 0 ? sum / weights : plain / count;
}

bool ht_accounting_figures(const struct ht_built_form *built, const struct ht_child_figures *child,
                           const uint64_t *samples, const uint64_t *untouched,
                           struct ht_accounting_figures *figures) {
    uint32_t count = built->form->samples;
    *figures = (struct ht_accounting_figures){
        .child = malloc(sizeof *child),
        .slop_bytes = malloc((count + 1) * sizeof(int64_t)),
        .untouched_bytes = malloc((count + 1) * sizeof(uint64_t)),
        .slop_peak_bytes = NAN,
        .slop_mean_bytes = NAN,
        .slop_end_bytes = NAN,
    };
    if (!figures->child || !figures->slop_bytes || !figures->untouched_bytes) {
        ht_accounting_figures_free(figures);
        return false;
    }
    memcpy(figures->child, child, sizeof *child);
    for (uint32_t i = 0; i < count; i++) figures->slop_bytes[i] = (int64_t)samples[i];
    memcpy(figures->untouched_bytes, untouched, count * sizeof *untouched);
    if (!child->knows_usable) return true;
    figures->slop_peak_bytes = (double)child->peak_usable_bytes - (double)child->peak_live_bytes;
    figures->slop_mean_bytes = mean_slop(built, figures->slop_bytes);
    figures->slop_end_bytes = (double)child->report_end.usable_bytes - (double)child->report_end.live_bytes;
    return true;
}

const struct ht_report_row *ht_report_at_peak(const struct ht_accounting_figures *figures) {
    const struct ht_child_figures *child = figures->child;
    const struct ht_report_row *peak = NULL;
    for (uint32_t i = 0; child && i < child->reports; i++) {
        if (!peak || child->report[i].live_bytes > peak->live_bytes) peak = &child->report[i];
    }
    return peak;
}

void ht_accounting_figures_free(struct ht_accounting_figures *figures) {
    free(figures->child);
    free(figures->slop_bytes);
    free(figures->untouched_bytes);
    *figures = (struct ht_accounting_figures){0};
}
