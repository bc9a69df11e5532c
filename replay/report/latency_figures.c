// SPDX-License-Identifier: Apache-2.0
#include "latency_figures.h"

#include <math.h>
#include <stdlib.h>

// Values below 2^BITS have buckets of their own; above, each octave is divided into 2^(BITS-1).
enum { BITS = 8, OWN = 1 << BITS, OCTAVE = OWN / 2, SHIFT_MAX = 40, BUCKETS = OWN + SHIFT_MAX * OCTAVE };

static unsigned bucket_of(uint64_t value) {
    if (value < OWN) return (unsigned)value;
    unsigned shift = 64 - BITS - (unsigned)__builtin_clzll(value);
    if (shift > SHIFT_MAX) return BUCKETS - 1;
    return OWN + (shift - 1) * OCTAVE + (unsigned)(value >> shift) - OCTAVE;
}

static double middle_of(unsigned bucket) {
    if (bucket < OWN) return bucket;
    unsigned shift = (bucket - OWN) / OCTAVE + 1;
    uint64_t lowest = (uint64_t)((bucket - OWN) % OCTAVE + OCTAVE) << shift;
    return (double)lowest + (double)((1ull << shift) - 1) / 2;
}

int ht_histogram_add(struct ht_histogram *histogram, uint64_t value, uint64_t times) {
    if (!histogram->counts) histogram->counts = calloc(BUCKETS, sizeof *histogram->counts);
    if (!histogram->counts) return -1;
    histogram->counts[bucket_of(value)] += times;
    histogram->total += times;
    if (value > histogram->highest) histogram->highest = value;
    return 0;
}

int ht_histogram_merge(struct ht_histogram *into, const struct ht_histogram *from) {
    if (!from->counts) return 0;
    if (ht_histogram_add(into, from->highest, 0)) return -1;
    for (unsigned i = 0; i < BUCKETS; i++) into->counts[i] += from->counts[i];
    into->total += from->total;
    return 0;
}

double ht_histogram_quantile(const struct ht_histogram *histogram, double share) {
    uint64_t rank = (uint64_t)ceil(share * (double)histogram->total), seen = 0;
    if (!histogram->total) return NAN;
    if (rank < 1) rank = 1;
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen >= rank) return fmin(middle_of(i), (double)histogram->highest);
    }
    return (double)histogram->highest;
}

void ht_histogram_free(struct ht_histogram *histogram) {
    free(histogram->counts);
    *histogram = (struct ht_histogram){0};
}

enum { UNITS_PER_NS = 10 };  // histograms count tenths of a ns

const char *const ht_latency_kind_names[HT_KINDS] = {"", "allocate", "reallocate", "free", "query"};

static int add_reading(struct ht_latencies *latencies, const struct ht_reading_point *point,
                       double duration_ns) {
    enum ht_kind kind = ht_functions[point->function].kind;
    uint64_t units = duration_ns > 0 ? (uint64_t)llround(duration_ns * UNITS_PER_NS) : 0;
    latencies->taken++;
    return ht_histogram_add(&latencies->functions[point->function], units, 1) ||
                   ht_histogram_add(&latencies->sizes[kind][ht_size_class(point->bytes)], units, 1)
               ? -1
               : 0;
}

int ht_latencies_add(struct ht_latencies *latencies, const struct ht_built_form *built,
                     const struct ht_reading *readings, const struct ht_outcome *outcome) {
    if (!outcome->ticks) return 0;
    double ns_per_tick = (double)outcome->ticks_ns / (double)outcome->ticks;
    double floor_ns = (double)outcome->clock_cost_ticks * ns_per_tick;
    if (!latencies->taken || floor_ns < latencies->floor_ns) latencies->floor_ns = floor_ns;
    for (uint32_t i = 0; i < built->form->readings; i++) {
        if (readings[i].call_ticks == HT_READING_DROPPED) {
            latencies->dropped++;
            continue;
        }
        double duration_ns = (double)readings[i].call_ticks * ns_per_tick - floor_ns;
        if (add_reading(latencies, &built->reading_points[i], duration_ns)) return -1;
    }
    return 0;
}

int ht_latencies_merge(struct ht_latencies *into, const struct ht_latencies *from) {
    if (from->taken && (!into->taken || from->floor_ns < into->floor_ns)) into->floor_ns = from->floor_ns;
    into->taken += from->taken;
    into->dropped += from->dropped;
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        if (ht_histogram_merge(&into->functions[i], &from->functions[i])) return -1;
    }
    for (int kind = 0; kind < HT_KINDS; kind++) {
        for (int i = 0; i < HT_SIZE_CLASSES; i++) {
            if (ht_histogram_merge(&into->sizes[kind][i], &from->sizes[kind][i])) return -1;
        }
    }
    return 0;
}

struct ht_percentiles ht_percentiles_of(const struct ht_histogram *histogram) {
    return (struct ht_percentiles){
        .count = histogram->total,
        .p50_ns = ht_histogram_quantile(histogram, 0.5) / UNITS_PER_NS,
        .p90_ns = ht_histogram_quantile(histogram, 0.9) / UNITS_PER_NS,
        .p99_ns = ht_histogram_quantile(histogram, 0.99) / UNITS_PER_NS,
        .p999_ns = ht_histogram_quantile(histogram, 0.999) / UNITS_PER_NS,
        .max_ns = histogram->total ? (double)histogram->highest / UNITS_PER_NS : NAN,
    };
}

void ht_latencies_free(struct ht_latencies *latencies) {
    for (int i = 0; i < HT_FUNCTIONS; i++) ht_histogram_free(&latencies->functions[i]);
    for (int kind = 0; kind < HT_KINDS; kind++) {
        for (int i = 0; i < HT_SIZE_CLASSES; i++) ht_histogram_free(&latencies->sizes[kind][i]);
    }
}

void ht_stretch_costs_add(struct ht_stretch_costs *costs, const struct ht_built_form *built,
                          const uint32_t *sample, uint32_t stretches, const struct ht_reading *readings,
                          const struct ht_outcome *outcome) {
    double ns_per_tick = outcome->ticks ? (double)outcome->ticks_ns / (double)outcome->ticks : 0;
    uint64_t reading = 0;
    uint32_t round = costs->rounds++;
    for (uint32_t i = 0; i < stretches; i++) {
        uint64_t until = built->points[sample[i]].readings, ticks = 0, calls = 0;
        for (; reading < until; reading++) {
            if (readings[reading].call_ticks == HT_READING_DROPPED) continue;
            ticks += (uint64_t)readings[reading].call_ticks + readings[reading].touch_ticks;
            calls++;
        }
        costs->calls[round][i] = calls;
        costs->ns[round][i] = (double)ticks * ns_per_tick;
    }
}
