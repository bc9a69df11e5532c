#include "comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// One figure of a cell, NaN where it was not measured.
typedef double (*figure_of)(const struct ht_cell *cell);

static double time_of(const struct ht_cell *c) { return c->time_ok ? c->time.alloc_time_ns : NAN; }
static double per_call_of(const struct ht_cell *c) { return c->time_ok ? c->time.ns_per_call : NAN; }
static double harness_of(const struct ht_cell *c) { return c->time_ok ? c->time.harness_time_ns : NAN; }
static double clock_of(const struct ht_cell *c) { return c->time_ok ? c->time.clock_cost_ns : NAN; }
static double wait_of(const struct ht_cell *c) { return c->time_ok ? c->time.wait_time_ns : NAN; }
static double faults_of(const struct ht_cell *c) { return c->time_ok || c->memory_ok ? c->faults : NAN; }
static double peak_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.rss_peak_bytes : NAN; }
static double mean_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.rss_mean_bytes : NAN; }
static double end_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.rss_end_bytes : NAN; }
static double f1_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.fragmentation[0] : NAN; }
static double f2_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.fragmentation[1] : NAN; }
static double f3_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.fragmentation[2] : NAN; }
static double f4_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.fragmentation[3] : NAN; }

static size_t add_measured(double *values, size_t count, double value) {
    if (!isnan(value)) values[count++] = value;
    return count;
}

static double median_of(const struct ht_measurements *m, ptrdiff_t choice, figure_of figure,
                        double *scratch) {
    size_t count = 0;
    for (uint32_t round = 0; round < m->rounds; round++) {
        count = add_measured(scratch, count,
                             figure(choice < 0 ? ht_null_cell(m, round) : ht_cell(m, round, (size_t)choice)));
    }
    return ht_median(scratch, count);
}

// Each round gives one ratio, so that what slowed the machine in that round slowed both.
static struct ht_estimate estimate(const struct ht_measurements *m, size_t choice, size_t baseline,
                                   figure_of figure, double *scratch, struct ht_random *random) {
    struct ht_estimate made = {.median = median_of(m, (ptrdiff_t)choice, figure, scratch)};
    size_t count = 0;
    for (uint32_t round = 0; round < m->rounds; round++) {
        double mine = figure(ht_cell(m, round, choice)), base = figure(ht_cell(m, round, baseline));
        if (base > 0) count = add_measured(scratch, count, mine / base);
    }
    made.ratio = ht_ratio_interval(scratch, count, random);
    made.verdict = choice == baseline ? HT_VERDICT_NONE : ht_verdict(&made.ratio);
    return made;
}

static void estimate_functions(const struct ht_measurements *m, size_t choice,
                               struct ht_allocator_estimates *made, double *scratch) {
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        size_t count = 0;
        for (uint32_t round = 0; round < m->rounds; round++) {
            const struct ht_cell *cell = ht_cell(m, round, choice);
            if (!cell->time_ok) continue;
            made->functions[i].count = cell->time.functions[i].count;
            count = add_measured(scratch, count, cell->time.functions[i].time_ns);
        }
        made->functions[i].time_ns = ht_median(scratch, count);
        count = 0;
        for (uint32_t round = 0; round < m->rounds; round++) {
            const struct ht_cell *cell = ht_cell(m, round, choice);
            if (cell->time_ok) count = add_measured(scratch, count, cell->time.functions[i].touch_ns);
        }
        made->functions[i].touch_ns = ht_median(scratch, count);
    }
}

static void estimate_allocator(const struct ht_measurements *m, size_t choice,
                               struct ht_comparison *comparison, double *scratch, struct ht_random *random) {
    static const figure_of fragmentation[] = {f1_of, f2_of, f3_of, f4_of};
    struct ht_allocator_estimates *made = &comparison->allocators[choice];
    size_t baseline = comparison->baseline;
    for (uint32_t round = 0; round < m->rounds; round++) {
        made->time_runs += ht_cell(m, round, choice)->time_ok;
        made->memory_runs += ht_cell(m, round, choice)->memory_ok;
    }
    made->time_ns = estimate(m, choice, baseline, time_of, scratch, random);
    made->rss_peak = estimate(m, choice, baseline, peak_of, scratch, random);
    made->rss_mean = estimate(m, choice, baseline, mean_of, scratch, random);
    made->rss_end = estimate(m, choice, baseline, end_of, scratch, random);
    made->ns_per_call = median_of(m, (ptrdiff_t)choice, per_call_of, scratch);
    made->faults = median_of(m, (ptrdiff_t)choice, faults_of, scratch);
    made->wait_ns = median_of(m, (ptrdiff_t)choice, wait_of, scratch);
    for (int i = 0; i < 4; i++)
        made->fragmentation[i] = median_of(m, (ptrdiff_t)choice, fragmentation[i], scratch);
    estimate_functions(m, choice, made, scratch);
}

bool ht_compare(const struct ht_measurements *m, struct ht_comparison *comparison) {
    struct ht_random random = {comparison->options->seed};
    double *scratch = malloc((m->rounds ? m->rounds : 1) * sizeof *scratch);
    if (!scratch) return false;
    comparison->count = m->choices;
    comparison->rounds = m->rounds;
    comparison->measurements = m;
    memset(comparison->allocators, 0, sizeof comparison->allocators);
    for (size_t i = 0; i < m->choices; i++) estimate_allocator(m, i, comparison, scratch, &random);
    comparison->harness_ns = median_of(m, -1, harness_of, scratch);
    comparison->null_rss_bytes = median_of(m, -1, peak_of, scratch);
    comparison->clock_cost_ns = median_of(m, -1, clock_of, scratch);
    comparison->timed_calls = m->rounds ? ht_null_cell(m, 0)->time.timed_calls : 0;
    free(scratch);
    return true;
}

int ht_comparison_recorded(const struct ht_comparison *comparison) {
    const struct ht_choices *choices = &comparison->options->choices;
    for (size_t i = 0; i < comparison->count && comparison->program->allocator[0]; i++) {
        if (!strcmp(choices->list[i].name, comparison->program->allocator)) return (int)i;
    }
    return -1;
}
