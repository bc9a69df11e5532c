// SPDX-License-Identifier: Apache-2.0
#include "comparison.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "outliers.h"

// One figure of a cell, NaN where it was not measured.
typedef double (*figure_of)(const struct ht_cell *cell);

static double time_of(const struct ht_cell *c) { return c->time_ok ? c->time.alloc_time_ns : NAN; }
static double per_call_of(const struct ht_cell *c) { return c->time_ok ? c->time.ns_per_call : NAN; }
static double harness_of(const struct ht_cell *c) { return c->time_ok ? c->time.harness_time_ns : NAN; }
static double clock_of(const struct ht_cell *c) { return c->time_ok ? c->time.clock_cost_ns : NAN; }
static double wait_of(const struct ht_cell *c) { return c->time_ok ? c->time.wait_time_ns : NAN; }
static double faults_of(const struct ht_cell *c) { return c->time_ok || c->memory_ok ? c->faults : NAN; }
static double peak_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.rss_peak_bytes : NAN; }
static double between_of(const struct ht_cell *c) {
    return c->memory_ok ? c->memory.rss_between_calls_peak_bytes : NAN;
}
static double mean_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.rss_mean_bytes : NAN; }
static double end_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.rss_end_bytes : NAN; }
static double process_of(const struct ht_cell *c) {
    return c->memory_ok ? c->memory.process_rss_peak_bytes : NAN;
}
static double f1_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.fragmentation[0] : NAN; }
static double f2_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.fragmentation[1] : NAN; }
static double f3_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.fragmentation[2] : NAN; }
static double f4_of(const struct ht_cell *c) { return c->memory_ok ? c->memory.fragmentation[3] : NAN; }

static size_t add_measured(double *values, size_t count, double value) {
    if (!isnan(value)) values[count++] = value;
    return count;
}

static const figure_of compared[HT_FIGURES] = {time_of, peak_of, mean_of, end_of, process_of};
static double median_of(const struct ht_measurements *m, size_t who, figure_of figure, double *scratch) {
    size_t count = 0;
    for (uint32_t round = 0; round < m->rounds; round++) {
        count = add_measured(scratch, count, figure(ht_cell_of(m, round, who)));
    }
    return ht_median(scratch, count);
}

size_t ht_compared_values(const struct ht_measurements *m, enum ht_figure figure, size_t choice,
                          double *values) {
    size_t count = 0;
    for (uint32_t round = 0; m && round < m->rounds; round++)
        count = add_measured(values, count, compared[figure](ht_cell(m, round, choice)));
    return count;
}

// Each round gives one ratio, so that what slowed the machine in that round slowed both.
static struct ht_interval ratio_to(const struct ht_measurements *m, size_t who, size_t base_who,
                                   figure_of figure, double confidence) {
    double *ratios = malloc((m->rounds ? m->rounds : 1) * sizeof *ratios);
    size_t count = 0;
    for (uint32_t round = 0; ratios && round < m->rounds; round++) {
        double mine = figure(ht_cell_of(m, round, who)), base = figure(ht_cell_of(m, round, base_who));
        if (base > 0) count = add_measured(ratios, count, mine / base);
    }
    struct ht_interval interval = ht_ratio_interval(ratios, count, confidence);
    free(ratios);
    return interval;
}

static void judge(const struct ht_interval *control, struct ht_estimate *estimate) {
    estimate->widened = ht_widened(&estimate->ratio, control);
    estimate->verdict = ht_verdict(&estimate->widened);
    estimate->more_rounds =
        estimate->verdict == HT_VERDICT_UNRESOLVED ? ht_more_rounds(&estimate->widened) : NAN;
}

void ht_compare_figure(const struct ht_measurements *m, enum ht_figure figure, size_t choice, size_t baseline,
                       double confidence, struct ht_estimate *estimate) {
    struct ht_interval control = ratio_to(m, m->choices + 1, 1 + baseline, compared[figure], confidence);
    estimate->ratio = ratio_to(m, 1 + choice, 1 + baseline, compared[figure], confidence);
    judge(&control, estimate);
}

struct ht_estimate ht_compare_pair(const struct ht_comparison *c, enum ht_figure figure, size_t choice,
                                   size_t other) {
    struct ht_estimate made = {0};
    made.ratio = ratio_to(c->measurements, 1 + choice, 1 + other, compared[figure], ht_confidence);
    judge(&c->controls[figure], &made);
    return made;
}

// The rounds whose value stands out, and the least value. Keeps what there is where memory is short.
static void note_outliers(const struct ht_measurements *m, size_t who, figure_of figure,
                          struct ht_estimate *estimate) {
    size_t room = m->rounds ? m->rounds : 1;
    double *values = malloc(room * sizeof *values), *scratch = malloc(room * sizeof *scratch);
    bool *flags = calloc(room, sizeof *flags);
    estimate->outliers = malloc(room * sizeof *estimate->outliers);
    estimate->minimum = NAN;
    if (values && scratch && flags && estimate->outliers) {
        for (uint32_t round = 0; round < m->rounds; round++) {
            values[round] = figure(ht_cell_of(m, round, who));
            estimate->minimum = fmin(estimate->minimum, values[round]);  // fmin prefers what is a number
        }
        ht_outliers(values, m->rounds, scratch, flags);
        for (uint32_t round = 0; round < m->rounds; round++) {
            if (flags[round]) estimate->outliers[estimate->outliers_count++] = round;
        }
    }
    free(values);
    free(scratch);
    free(flags);
}

static struct ht_estimate estimate(const struct ht_measurements *m, const struct ht_comparison *comparison,
                                   size_t choice, enum ht_figure figure, double *scratch) {
    struct ht_estimate made = {.median = median_of(m, 1 + choice, compared[figure], scratch)};
    made.ratio = ratio_to(m, 1 + choice, 1 + comparison->baseline, compared[figure], ht_confidence);
    judge(&comparison->controls[figure], &made);
    if (choice == comparison->baseline) {
        made.verdict = HT_VERDICT_NONE;
        made.more_rounds = NAN;
    }
    note_outliers(m, 1 + choice, compared[figure], &made);
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
                               struct ht_comparison *comparison, double *scratch) {
    static const figure_of fragmentation[] = {f1_of, f2_of, f3_of, f4_of};
    struct ht_allocator_estimates *made = &comparison->allocators[choice];
    for (uint32_t round = 0; round < m->rounds; round++) {
        made->time_runs += ht_cell(m, round, choice)->time_ok;
        const struct ht_cell *cell = ht_cell(m, round, choice);
        made->memory_runs += cell->memory_ok;
        if (!cell->memory_ok || cell->memory.watched) continue;
        made->unwatched = true;
        made->watch_refusal = cell->memory.watch_refusal;
    }
    made->time_ns = estimate(m, comparison, choice, HT_FIGURE_TIME, scratch);
    made->rss_peak = estimate(m, comparison, choice, HT_FIGURE_PEAK, scratch);
    made->rss_mean = estimate(m, comparison, choice, HT_FIGURE_MEAN, scratch);
    made->rss_end = estimate(m, comparison, choice, HT_FIGURE_END, scratch);
    made->process_rss_peak = estimate(m, comparison, choice, HT_FIGURE_PROCESS, scratch);
    made->rss_between_calls_peak = median_of(m, 1 + choice, between_of, scratch);
    made->ns_per_call = median_of(m, 1 + choice, per_call_of, scratch);
    made->faults = median_of(m, 1 + choice, faults_of, scratch);
    made->wait_ns = median_of(m, 1 + choice, wait_of, scratch);
    for (int i = 0; i < 4; i++) made->fragmentation[i] = median_of(m, 1 + choice, fragmentation[i], scratch);
    estimate_functions(m, choice, made, scratch);
}

static double error_of(const struct ht_cell *c) { return c->memory_ok ? c->check.peak_error : NAN; }

// The whole check of one round, so that its figures belong together: of two middle rounds the earlier.
static struct ht_baseline_check middle_check(const struct ht_measurements *m, int choice, double *scratch) {
    double away = INFINITY;
    struct ht_baseline_check middle = ht_baseline_unchecked;
    if (choice < 0) return middle;
    double median = median_of(m, 1 + (size_t)choice, error_of, scratch);
    for (uint32_t round = 0; round < m->rounds; round++) {
        const struct ht_cell *cell = ht_cell(m, round, (size_t)choice);
        if (!(fabs(error_of(cell) - median) < away)) continue;
        away = fabs(error_of(cell) - median);
        middle = cell->check;
    }
    return middle;
}

bool ht_compare(const struct ht_measurements *m, struct ht_comparison *comparison) {
    double *scratch = malloc((m->rounds ? m->rounds : 1) * sizeof *scratch);
    if (!scratch) return false;
    comparison->count = m->choices;
    comparison->rounds = m->rounds;
    comparison->measurements = m;
    comparison->controlled = m->choices > 1;
    memset(comparison->allocators, 0, sizeof comparison->allocators);
    for (int i = 0; i < HT_FIGURES && m->choices; i++) {
        comparison->controls[i] =
            ratio_to(m, m->choices + 1, 1 + comparison->baseline, compared[i], ht_confidence);
    }
    for (size_t i = 0; i < m->choices; i++) estimate_allocator(m, i, comparison, scratch);
    comparison->harness_ns = median_of(m, HT_WHO_NULL, harness_of, scratch);
    comparison->null_rss_bytes = median_of(m, HT_WHO_NULL, peak_of, scratch);
    comparison->clock_cost_ns = median_of(m, HT_WHO_NULL, clock_of, scratch);
    comparison->check = middle_check(m, ht_comparison_recorded(comparison), scratch);
    comparison->timed_calls = m->rounds ? ht_null_cell(m, 0)->time.timed_calls : 0;
    free(scratch);
    return true;
}

void ht_comparison_free(struct ht_comparison *comparison) {
    for (size_t i = 0; i < comparison->count; i++) {
        for (int figure = 0; figure < HT_FIGURES; figure++) {
            free(ht_estimate_of(&comparison->allocators[i], (enum ht_figure)figure)->outliers);
        }
    }
    comparison->count = 0;
}

int ht_comparison_recorded(const struct ht_comparison *comparison) {
    const struct ht_choices *choices = &comparison->plan->choices;
    for (size_t i = 0; i < comparison->count; i++) {
        if (ht_recorded_served(comparison->program, choices->list[i].name, choices->list[i].version))
            return (int)i;
    }
    return -1;
}

bool ht_comparison_is_of_own(const struct ht_comparison *comparison) {
    const struct ht_recorded_program *program = comparison->program;
    return program->linked && !isnan(program->rss_peak_bytes) && ht_comparison_recorded(comparison) < 0;
}

double ht_comparison_of_recorded(const struct ht_comparison *comparison, size_t allocator) {
    if (!ht_comparison_is_of_own(comparison)) return NAN;
    return comparison->allocators[allocator].process_rss_peak.median / comparison->program->rss_peak_bytes;
}
