// SPDX-License-Identifier: Apache-2.0
#include "run_figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
