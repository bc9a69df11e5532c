// SPDX-License-Identifier: Apache-2.0
#include "beside_medians.h"

#include <math.h>
#include <stdlib.h>

#include "ratio_interval.h"

struct medians {
    const struct ht_measurements *all;
    size_t choice;
    double *scratch;
};

// Of the figure this far into each cell.
static double median_at(const struct medians *of, size_t offset, bool of_time) {
    size_t count = 0;
    for (uint32_t round = 0; round < of->all->rounds; round++) {
        const struct ht_cell *cell = ht_cell(of->all, round, of->choice);
        double value = *(const double *)((const char *)cell + offset);
        bool measured = of_time ? cell->time_ok : cell->memory_ok;
        if (measured && !isnan(value)) of->scratch[count++] = value;
    }
    return ht_median(of->scratch, count);
}

static double harness_share(const struct medians *of) {
    size_t count = 0;
    for (uint32_t round = 0; round < of->all->rounds; round++) {
        const struct ht_cell *cell = ht_cell(of->all, round, of->choice);
        double share = cell->time_ok ? ht_harness_share(&cell->time) : NAN;
        if (!isnan(share)) of->scratch[count++] = share;
    }
    return ht_median(of->scratch, count);
}

static void counters_of(const struct medians *of, struct ht_counter_figures *counters) {
    for (size_t i = 0; i < HT_PERF_EVENTS; i++) {
        counters->perf[i] = median_at(of, offsetof(struct ht_cell, counters.perf) + i * sizeof(double), true);
    }
    counters->voluntary_switches = median_at(of, offsetof(struct ht_cell, counters.voluntary_switches), true);
    counters->involuntary_switches =
        median_at(of, offsetof(struct ht_cell, counters.involuntary_switches), true);
    for (uint32_t round = 0; round < of->all->rounds; round++) {
        const struct ht_cell *cell = ht_cell(of->all, round, of->choice);
        if (!cell->time_ok) continue;
        counters->user_only |= cell->counters.user_only;
        counters->refusal = cell->counters.refusal;
    }
}

static void leftovers_of(const struct medians *of, struct ht_leftover_figures *leftovers) {
    static_assert(sizeof *leftovers % sizeof(double) == 0, "nothing but figures");
    for (size_t at = 0; at < sizeof *leftovers; at += sizeof(double)) {
        *(double *)((char *)leftovers + at) = median_at(of, offsetof(struct ht_cell, leftovers) + at, false);
    }
}

static double peak_of(const struct ht_cell *cell) { return cell->decomposition.peak.rss_bytes; }
static double end_of(const struct ht_cell *cell) { return cell->decomposition.end.rss_bytes; }

// The run whose RSS is the median, the lower of the two in the middle; NULL: none was taken apart.
static const struct ht_cell *middle_run(const struct medians *of, double (*rss_of)(const struct ht_cell *)) {
    const struct ht_cell *found = NULL;
    for (uint32_t round = 0; round < of->all->rounds; round++) {
        const struct ht_cell *cell = ht_cell(of->all, round, of->choice);
        size_t below = 0, as_much = 0, all = 0;
        for (uint32_t other = 0; other < of->all->rounds; other++) {
            const struct ht_cell *with = ht_cell(of->all, other, of->choice);
            if (!with->memory_ok || isnan(rss_of(with))) continue;
            below += rss_of(with) < rss_of(cell);
            as_much += rss_of(with) == rss_of(cell);
            all++;
        }
        if (cell->memory_ok && below * 2 < all && (below + as_much) * 2 >= all) found = cell;
    }
    return found;
}

static void decomposition_of(const struct medians *of, const struct ht_leftover_figures *leftovers,
                             struct ht_decomposition *decomposition) {
    const struct ht_cell *peak = middle_run(of, peak_of), *end = middle_run(of, end_of);
    ht_decomposition_unknown(decomposition);
    if (!peak || !end) return;
    *decomposition = (struct ht_decomposition){.peak = peak->decomposition.peak,
                                               .end = end->decomposition.end,
                                               .after_free_bytes = leftovers->rss_after_free_bytes,
                                               .after_purge_bytes = leftovers->rss_after_purge_bytes};
}

struct ht_beside_medians ht_beside_medians(const struct ht_comparison *c, size_t choice) {
    struct ht_beside_medians medians = {.harness_share = NAN, .arenas = {NAN, NAN}};
    ht_decomposition_unknown(&medians.decomposition);
    struct medians of = {c->measurements, choice, malloc((c->rounds + 1) * sizeof(double))};
    if (!of.scratch) return medians;
    medians.harness_share = harness_share(&of);
    counters_of(&of, &medians.counters);
    leftovers_of(&of, &medians.leftovers);
    medians.arenas.used = median_at(&of, offsetof(struct ht_cell, arenas.used), false);
    medians.arenas.most = median_at(&of, offsetof(struct ht_cell, arenas.most), false);
    for (uint32_t round = 0; round < c->rounds; round++)
        medians.processors_asked |= ht_cell(c->measurements, round, choice)->processors_asked;
    decomposition_of(&of, &medians.leftovers, &medians.decomposition);
    free(of.scratch);
    return medians;
}
