// SPDX-License-Identifier: Apache-2.0
#include "run_figures.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "older_libc.h"

void ht_timed_readings_sum(const struct ht_built_form *built, const struct ht_reading *readings,
                           const struct ht_outcome *outcome, struct ht_timed_readings *sum) {
    *sum = (struct ht_timed_readings){
        .clock_cost_ticks = outcome->clock_cost_ticks,
        .ns_per_tick = outcome->ticks ? (double)outcome->ticks_ns / (double)outcome->ticks : NAN};
    for (uint32_t i = 0; i < built->form->readings; i++) {
        if (readings[i].call_ticks == HT_READING_DROPPED) {
            sum->dropped++;
            continue;
        }
        struct ht_timed_function *function = &sum->functions[built->reading_points[i].function];
        function->count++;
        function->call_ticks += readings[i].call_ticks;
        function->touch_ticks += readings[i].touch_ticks;
        sum->taken++;
    }
}

double ht_timed_mean_ns(const struct ht_timed_readings *sum, int function, bool touch) {
    const struct ht_timed_function *of = &sum->functions[function];
    if (!of->count) return NAN;
    uint64_t ticks = touch ? of->touch_ticks : of->call_ticks;
    return ((double)ticks / (double)of->count - (double)sum->clock_cost_ticks) * sum->ns_per_tick;
}

// All calls of a function by the mean of its timed ones, the null replayer's off. Less than nothing is noise.
static double whole_ns(const struct ht_timed_readings *timed, const struct ht_timed_readings *null_timed,
                       int function, bool touch, uint64_t count) {
    double mean = ht_timed_mean_ns(timed, function, touch);
    if (timed != null_timed) {
        double null_mean = ht_timed_mean_ns(null_timed, function, touch);
        if (!isnan(null_mean)) mean -= null_mean;
    }
    return isnan(mean) ? NAN : fmax(mean, 0) * (double)count;
}

// The functions' times from their timed calls; their sum. NaN where a function was not timed.
static double sum_functions(const struct ht_built_form *built, const struct ht_timed_readings *timed,
                            const struct ht_timed_readings *null_timed, struct ht_time_figures *figures) {
    double sum = 0;
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        struct ht_function_figures *function = &figures->functions[i];
        function->count = built->calls[i];
        function->time_ns = function->touch_ns = NAN;
        if (!function->count) continue;
        function->time_ns = whole_ns(timed, null_timed, i, false, function->count);
        function->touch_ns = whole_ns(timed, null_timed, i, true, function->count);
        if (!isnan(function->time_ns)) sum += function->time_ns + function->touch_ns;
    }
    return sum;
}

// The timed calls say how the total divides; the total itself is the flat run's.
static void divide_total(double total_ns, double sum_ns, struct ht_time_figures *figures) {
    double scale = sum_ns > 0 && total_ns > 0 ? total_ns / sum_ns : 0, touch_ns = 0;
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        figures->functions[i].time_ns *= scale;
        figures->functions[i].touch_ns *= scale;
        if (!isnan(figures->functions[i].touch_ns)) touch_ns += figures->functions[i].touch_ns;
    }
    figures->touch_time_ns = figures->timed_calls ? touch_ns : NAN;
}

void ht_time_figures(const struct ht_built_form *built, const struct ht_outcome *flat,
                     const struct ht_timed_readings *timed, const struct ht_outcome *null_flat,
                     const struct ht_timed_readings *null_timed, bool cold, struct ht_time_figures *figures) {
    bool own = flat == null_flat;
    *figures = (struct ht_time_figures){
        .alloc_time_ns = NAN,
        .ns_per_call = NAN,
        .harness_time_ns = (double)null_flat->cpu_ns,
        .wait_time_ns = (double)flat->wait_ns,
        .wall_ns = (double)flat->wall_ns,
        .clock_cost_ns = (double)timed->clock_cost_ticks * timed->ns_per_tick,
        .timed_calls = timed->taken,
        .timed_calls_dropped = timed->dropped,
    };
    double sum_ns = sum_functions(built, timed, null_timed, figures);
    double total_ns = cold ? sum_ns : (double)flat->cpu_ns - (own ? 0 : (double)null_flat->cpu_ns);
    divide_total(total_ns, sum_ns, figures);
    if (own) {
        figures->harness_time_ns = total_ns;
    } else {
        figures->alloc_time_ns = total_ns;
        if (built->calls_total) figures->ns_per_call = total_ns / (double)built->calls_total;
    }
}

double ht_harness_share(const struct ht_time_figures *figures) {
    double all_ns = figures->harness_time_ns + figures->alloc_time_ns;
    return all_ns > 0 ? figures->harness_time_ns / all_ns : NAN;
}

static double ratio(double used_bytes, uint64_t live_bytes) {
    return live_bytes ? used_bytes / (double)live_bytes : NAN;
}

// Trace time from a sample to the next: how much it counts in a mean.
static double weight_of(const struct ht_built_form *built, size_t i, size_t count) {
    return i + 1 < count ? (double)(built->points[i + 1].time_ns - built->points[i].time_ns) : 0;
}

// Johnstone & Wilson, "The Memory Fragmentation Problem: Solved?" (1998), section 4: memory used over memory
// live, (1) on average over time, (2) where most is live, (3) most used over live at that point, (4) most
// used over most live.
static void fragmentation(const struct ht_built_form *built, struct ht_memory_figures *figures) {
    const struct ht_sample_point *points = built->points;
    size_t most_live = 0;
    double ratios = 0, weights = 0;
    for (size_t i = 0; i < figures->count; i++) {
        if (points[i].live_bytes > points[most_live].live_bytes) most_live = i;
        double weight = weight_of(built, i, figures->count);
        if (points[i].live_bytes == 0) continue;
        ratios += weight * (double)figures->rss_bytes[i] / (double)points[i].live_bytes;
        weights += weight;
    }
    double peak = figures->rss_peak_bytes;
    figures->fragmentation[0] = weights > 0 ? ratios / weights : NAN;
    figures->fragmentation[1] = ratio((double)figures->rss_bytes[most_live], points[most_live].live_bytes);
    figures->fragmentation[2] = ratio(peak, points[figures->peak_sample].live_bytes);
    figures->fragmentation[3] = ratio(peak, built->live_peak_bytes);
}

size_t ht_peak_sample(const struct ht_built_form *built, const uint64_t *rss_bytes, size_t samples) {
    size_t peak = 0;
    for (size_t i = 1; i < samples; i++) {
        bool more_live = built->points[i].live_bytes > built->points[peak].live_bytes;
        if (rss_bytes[i] > rss_bytes[peak] || (rss_bytes[i] == rss_bytes[peak] && more_live)) peak = i;
    }
    return peak;
}

static void mean_and_peak(const struct ht_built_form *built, struct ht_memory_figures *figures) {
    double sum = 0, weights = 0, plain = 0;
    for (size_t i = 0; i < figures->count; i++) {
        double bytes = (double)figures->rss_bytes[i];
        double weight = weight_of(built, i, figures->count);
        sum += weight * bytes;
        weights += weight;
        plain += bytes;
    }
    size_t between_calls = ht_peak_sample(built, figures->rss_bytes, figures->count);
    figures->peak_sample = ht_peak_sample(built, figures->high_bytes, figures->count);
    figures->rss_peak_bytes = figures->count ? (double)figures->high_bytes[figures->peak_sample] : 0;
    figures->rss_between_calls_peak_bytes = figures->count ? (double)figures->rss_bytes[between_calls] : 0;
    // A trace that took no time at all still has a mean.
    figures->rss_mean_bytes = weights > 0 ? sum / weights : plain / (double)figures->count;
}

// The peak of the sum: heap and own memory need not be largest at the same moment.
static void process_figures(const uint64_t *own, struct ht_memory_figures *figures) {
    figures->process_rss_peak_bytes = figures->process_rss_end_bytes = NAN;
    if (!own || !figures->count) return;
    for (size_t i = 0; i < figures->count; i++)
        figures->process_rss_peak_bytes =
            fmax(figures->process_rss_peak_bytes, (double)(figures->high_bytes[i] + own[i]));
    figures->process_rss_end_bytes = figures->rss_end_bytes + (double)own[figures->count - 1];
}

static uint64_t less(uint64_t bytes, uint64_t off) { return bytes > off ? bytes - off : 0; }

bool ht_memory_figures(const struct ht_built_form *built, const struct ht_outcome *outcome,
                       struct ht_rss_samples rss, const struct ht_outcome *null_outcome,
                       const uint64_t *null_rss, const uint64_t *own, struct ht_memory_figures *figures) {
    size_t count = built->form->samples;
    *figures =
        (struct ht_memory_figures){.count = count, .rss_bytes = malloc((2 * count + 1) * sizeof(uint64_t))};
    if (!figures->rss_bytes) return false;
    figures->high_bytes = figures->rss_bytes + count;
    bool of_null = !null_rss;
    for (size_t i = 0; i < count; i++) {
        uint64_t off = of_null ? 0 : null_rss[i], at = rss.at_bytes[i];
        uint64_t high = rss.high_bytes && rss.high_bytes[i] > at ? rss.high_bytes[i] : at;
        figures->rss_bytes[i] = less(at, off);
        figures->high_bytes[i] = less(high, off);
    }
    figures->rss_end_bytes = (double)less(outcome->rss_end_bytes, of_null ? 0 : null_outcome->rss_end_bytes);
    figures->rss_start_bytes =
        (double)less(outcome->rss_start_bytes, of_null ? 0 : null_outcome->rss_start_bytes);
    figures->wait_time_ns = (double)outcome->wait_ns;
    figures->wall_ns = (double)outcome->wall_ns;
    mean_and_peak(built, figures);
    process_figures(own, figures);
    fragmentation(built, figures);
    return true;
}

const char *const ht_perf_names[HT_PERF_EVENTS] = {"instructions",     "cycles",           "cache_misses",
                                                   "llc_load_misses",  "dtlb_load_misses", "branch_misses",
                                                   "context_switches", "cpu_migrations"};

const char *ht_perf_refusal_text(uint32_t refusal) {
    switch (refusal) {
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP: return "this processor or virtual machine lacks some of them";
    case EACCES:
    case EPERM: return "not permitted (kernel.perf_event_paranoid, or a sandbox)";
    default: return strerrordesc_np((int)refusal);
    }
}

// Of one repeat.
static double once(uint64_t value, const struct ht_child_figures *child) {
    return value == HT_FIGURE_UNKNOWN ? NAN : (double)value / (double)child->repeats;
}

void ht_counter_figures(const struct ht_child_figures *child, const struct ht_child_figures *null,
                        struct ht_counter_figures *figures) {
    *figures = (struct ht_counter_figures){
        .voluntary_switches = once(child->voluntary_switches, child),
        .involuntary_switches = once(child->involuntary_switches, child),
    };
    for (int i = 0; i < HT_PERF_EVENTS; i++) {
        figures->perf[i] = once(child->perf[i].value, child);
        if (i >= HT_PERF_CONTEXT_SWITCHES) continue;
        if (null) figures->perf[i] -= once(null->perf[i].value, null);
        if (child->perf[i].user_only) figures->user_only = true;
        if (!figures->refusal) figures->refusal = child->perf[i].refusal;
    }
}

static double known_less(uint64_t bytes, uint64_t off) {
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
        .rss_after_free_bytes = known_less(child->rss_after_free_bytes, off->rss_after_free_bytes),
        // The null replayer has nothing to purge: what it has after freeing is the harness's.
        .rss_after_purge_bytes =
            child->purged ? known_less(child->rss_after_purge_bytes, off->rss_after_free_bytes) : NAN,
        .lazyfree_bytes = known_less(end->lazyfree_bytes, off_end->lazyfree_bytes),
        .anon_huge_bytes = known_less(end->anon_huge_bytes, off_end->anon_huge_bytes),
        .swap_bytes = known_less(end->swap_bytes, off_end->swap_bytes),
        .lazyfree_peak_bytes = known_less(peak->lazyfree_bytes, off_end->lazyfree_bytes),
        .anon_huge_peak_bytes = known_less(peak->anon_huge_bytes, off_end->anon_huge_bytes),
        .swap_peak_bytes = known_less(peak->swap_bytes, off_end->swap_bytes),
    };
}

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

static void take_apart(struct ht_decomposition_part *part, bool knows_usable) {
    double usable_bytes = part->requested_bytes + (knows_usable ? part->internal_bytes : 0);
    part->other_bytes = part->rss_bytes - (usable_bytes - part->untouched_bytes);
    if (!knows_usable) part->internal_bytes = NAN;
}

// Nothing but NaN.
static void decomposition_unknown(struct ht_decomposition *decomposition) {
    static_assert(sizeof *decomposition % sizeof(double) == 0, "nothing but figures");
    for (size_t i = 0; i < sizeof *decomposition / sizeof(double); i++) ((double *)decomposition)[i] = NAN;
}

void ht_decompose(const struct ht_built_form *built, const struct ht_memory_figures *memory,
                  const struct ht_leftover_figures *leftovers, const struct ht_accounting_figures *accounting,
                  struct ht_decomposition *decomposition) {
    const struct ht_child_figures *child = accounting->child;
    decomposition_unknown(decomposition);
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

struct ht_choice_figures *ht_choice_figures_new(size_t choices) {
    return calloc(choices + 1, sizeof(struct ht_choice_figures));
}

void ht_choice_figures_free(struct ht_choice_figures *figures, size_t choices) {
    for (size_t i = 0; figures && i <= choices; i++) {
        ht_latencies_free(&figures[i].latencies);
        ht_accounting_figures_free(&figures[i].accounting);
    }
    free(figures);
}

const char *ht_syscalls_missing(const struct ht_choice_figures *figures) {
    if (figures->syscalls_counted) return NULL;
    if (figures->syscalls_problem[0]) return figures->syscalls_problem;
    if (figures->problem[0]) return figures->problem;
    return figures->tried ? "the warm-up failed" : "a run takes too long to be repeated for it";
}
