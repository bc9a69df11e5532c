// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "json_values.h"
#include "ops.h"
#include "site_report.h"
#include "stats_report.h"

enum { HOT_SIZES = 32 };

static void set_ratio(json_t *object, const char *key, uint64_t part, uint64_t whole) {
    json_set_figure(object, key, whole ? (double)part / (double)whole : NAN);
}

// An upper bound; the highest of all is none.
static void set_upper(json_t *object, const char *key, uint64_t upper) {
    json_set_count(object, key, upper > INT64_MAX ? UINT64_MAX : upper);
}

static json_t *functions_of(const struct trace_stats *stats) {
    json_t *functions = json_object();
    for (unsigned function = 1; function < HT_DROP; function++) {
        uint64_t calls = 0, failed = 0, bytes = 0;
        for (unsigned variant = 0; variant < HT_VARIANTS; variant++) {
            unsigned op = function | variant << 5;
            calls += stats->op_calls[op];
            bytes += stats->op_bytes[op];
            if (variant == HT_FAILED) failed += stats->op_calls[op];
        }
        if (!calls) continue;
        json_t *row = json_object();
        json_set_number(row, "calls", calls);
        json_set_number(row, "failed", failed);
        json_set_number(row, "null", stats->op_calls[function | HT_NULL << 5]);
        json_set_number(row, "foreign", stats->op_calls[function | HT_FOREIGN << 5]);
        json_set_number(row, "bytes", bytes);
        json_object_set_new(functions, ht_functions[function].name, row);
    }
    return functions;
}

static json_t *size_classes_of(const struct trace_stats *stats) {
    json_t *classes = json_array();
    for (unsigned i = 0; i < STATS_CLASSES; i++) {
        const struct stats_size_class *class = &stats->size_class[i];
        uint64_t live, live_bytes;
        stats_class_at_peak(stats, i, &live, &live_bytes);
        if (!class->requests && !live) continue;
        json_t *row = json_object();
        json_set_number(row, "from_bytes", stats_class_lower(i));
        set_upper(row, "to_bytes", stats_class_upper(i));
        json_set_number(row, "requests", class->requests);
        json_set_number(row, "bytes", class->bytes);
        json_set_number(row, "live_at_peak", live);
        json_set_number(row, "live_at_peak_bytes", live_bytes);
        json_array_append_new(classes, row);
    }
    return classes;
}

static json_t *hot_sizes_of(const struct trace_stats *stats) {
    json_t *both = json_object();
    for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
        struct stats_hot_size hot[HOT_SIZES];
        size_t count = stats_hot_sizes(stats, by_bytes, hot, HOT_SIZES);
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *row = json_object();
            json_set_number(row, "size", hot[i].size);
            json_set_number(row, "requests", hot[i].requests);
            json_set_number(row, "bytes", hot[i].size * hot[i].requests);
            json_array_append_new(list, row);
        }
        json_object_set_new(both, by_bytes ? "by_bytes" : "by_requests", list);
    }
    json_set_number(both, "uncounted_requests", stats->uncounted_large);
    return both;
}

static json_t *histogram_of(const uint64_t counts[STATS_CLASSES]) {
    json_t *list = json_array();
    for (unsigned i = 0; i < STATS_CLASSES; i++) {
        if (!counts[i]) continue;
        json_t *row = json_object();
        json_set_number(row, "from", stats_class_lower(i));
        set_upper(row, "to", stats_class_upper(i));
        json_set_number(row, "count", counts[i]);
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *lifetimes_in(const struct trace_stats *stats, unsigned band) {
    static const char *const unit_name[STATS_UNITS] = {"events", "allocated_bytes", "time_ns"};
    json_t *row = json_object();
    uint64_t blocks = 0;
    for (unsigned i = 0; i < STATS_CLASSES; i++) blocks += stats->lifetime[STATS_EVENTS][band][i];
    json_set_number(row, "from_bytes", band ? stats_band_upper[band - 1] + 1 : 0);
    set_upper(row, "to_bytes", stats_band_upper[band]);
    json_set_number(row, "blocks", blocks);
    for (unsigned unit = 0; unit < STATS_UNITS; unit++) {
        const uint64_t *counts = stats->lifetime[unit][band];
        json_t *lifetimes = json_object();
        set_upper(lifetimes, "p50", stats_quantile(counts, 0.5));
        set_upper(lifetimes, "p90", stats_quantile(counts, 0.9));
        set_upper(lifetimes, "p99", stats_quantile(counts, 0.99));
        json_object_set_new(lifetimes, "histogram", histogram_of(counts));
        json_object_set_new(row, unit_name[unit], lifetimes);
    }
    return row;
}

static json_t *lifetimes_of(const struct trace_stats *stats) {
    json_t *lifetimes = json_object(), *bands = json_array();
    json_set_number(lifetimes, "blocks", stats->lifetimes);
    json_set_number(lifetimes, "inherited_blocks_ended", stats->inherited_ends);
    json_set_number(lifetimes, "live_at_end", stats->live_objects);
    json_set_number(lifetimes, "live_at_end_bytes", stats->live_bytes);
    json_set_number(lifetimes, "short_events", STATS_SHORT_EVENTS);
    json_set_number(lifetimes, "short_blocks", stats->short_lived);
    json_set_number(lifetimes, "short_bytes", stats->short_lived_bytes);
    set_ratio(lifetimes, "short_share", stats->short_lived, stats->lifetimes);
    for (unsigned band = 0; band < STATS_BANDS; band++)
        json_array_append_new(bands, lifetimes_in(stats, band));
    json_object_set_new(lifetimes, "by_size", bands);
    return lifetimes;
}

static json_t *thread_row(const struct trace_stats *stats, unsigned column) {
    const struct stats_column *counts = &stats->column[column];
    json_t *row = json_object();
    if (column) {
        const struct ht_thread *facts = &stats->facts.threads[counts->thread];
        json_set_number(row, "thread", counts->thread);
        json_set_number(row, "tid", facts->tid);
        json_set_text(row, "name", facts->name);
        json_set_number(row, "calls", facts->calls);
    } else {
        json_object_set_new(row, "thread", json_null());
    }
    json_set_number(row, "allocations", counts->allocations);
    json_set_number(row, "allocated_bytes", counts->allocated_bytes);
    return row;
}

// Column 0 gathers the other threads: it comes last.
static json_t *threads_of(const struct trace_stats *stats) {
    json_t *threads = json_object(), *rows = json_array(), *frees = json_array(), *bytes = json_array();
    bool others = stats->others;
    unsigned columns = stats->columns - 1 + others;
    for (unsigned i = 0; i < columns; i++) {
        unsigned by = (i + 1) % stats->columns;
        json_t *frees_row = json_array(), *bytes_row = json_array();
        json_array_append_new(rows, thread_row(stats, by));
        for (unsigned j = 0; j < columns; j++) {
            const struct stats_pair *pair = &stats->pair[by][(j + 1) % stats->columns];
            json_array_append_new(frees_row, json_number(pair->frees));
            json_array_append_new(bytes_row, json_number(pair->bytes));
        }
        json_array_append_new(frees, frees_row);
        json_array_append_new(bytes, bytes_row);
    }
    json_set_number(threads, "count", stats->facts.threads_count);
    json_object_set_new(threads, "rows", rows);
    json_object_set_new(threads, "frees", frees);
    json_object_set_new(threads, "freed_bytes", bytes);
    json_set_number(threads, "cross_frees", stats->cross_frees);
    json_set_number(threads, "cross_freed_bytes", stats->cross_freed_bytes);
    set_ratio(threads, "cross_share", stats->cross_frees, stats->frees);
    return threads;
}

static json_t *ratios_of(const uint64_t counts[STATS_RATIOS]) {
    json_t *list = json_array();
    for (unsigned i = 0; i < STATS_RATIOS; i++) {
        json_t *row = json_object();
        bool open = i + 1 == STATS_RATIOS;
        json_set_figure(row, "to", open ? NAN : stats_ratio_upper[i]);
        json_set_number(row, "count", counts[i]);
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *reallocs_of(const struct trace_stats *stats) {
    const struct stats_reallocs *reallocs = &stats->reallocs;
    json_t *object = json_object();
    json_set_number(object, "resized", reallocs->resized);
    json_set_number(object, "grown", reallocs->grown);
    json_set_number(object, "shrunk", reallocs->shrunk);
    json_set_number(object, "same_size", reallocs->same);
    json_set_number(object, "from_null", reallocs->from_null);
    json_set_number(object, "released", reallocs->released);
    json_set_number(object, "foreign", reallocs->foreign);
    json_set_number(object, "failed", reallocs->failed);
    json_set_number(object, "added_bytes", reallocs->added_bytes);
    json_set_number(object, "removed_bytes", reallocs->removed_bytes);
    json_set_number(object, "kept_bytes", reallocs->kept_bytes);
    json_object_set_new(object, "ratio", ratios_of(reallocs->ratio));
    json_set_number(object, "chains", reallocs->chains);
    json_set_number(object, "longest_chain", reallocs->longest_chain);
    json_object_set_new(object, "chain_length", histogram_of(reallocs->chain_length));
    json_object_set_new(object, "chain_growth", ratios_of(reallocs->chain_growth));
    return object;
}

static json_t *alignments_of(const struct trace_stats *stats) {
    json_t *object = json_object(), *list = json_array();
    uint64_t calls = stats->odd_alignments;
    for (unsigned i = 0; i < STATS_ALIGNMENTS - 1; i++) {
        if (!stats->alignment[i]) continue;
        json_t *row = json_object();
        json_set_number(row, "alignment", UINT64_C(1) << i);
        json_set_number(row, "calls", stats->alignment[i]);
        json_array_append_new(list, row);
        calls += stats->alignment[i];
    }
    json_set_number(object, "calls", calls);
    json_set_number(object, "bytes", stats->aligned_bytes);
    json_object_set_new(object, "by_alignment", list);
    json_set_number(object, "no_power_of_two", stats->odd_alignments);
    return object;
}

static json_t *churn_of(const struct trace_stats *stats) {
    json_t *object = json_object(), *list = json_array();
    for (uint32_t i = 0; i < stats->points_used; i++) {
        const struct stats_point *point = &stats->point[i];
        json_t *row = json_object();
        json_set_number(row, "time_ns", i * stats->point_ns);
        json_set_number(row, "calls", point->calls);
        json_set_number(row, "requests", point->requests);
        json_set_number(row, "allocated_bytes", point->allocated_bytes);
        json_set_number(row, "frees", point->frees);
        json_set_number(row, "freed_bytes", point->freed_bytes);
        json_set_number(row, "live_end_bytes", point->live_end_bytes);
        json_set_number(row, "live_peak_bytes", point->live_peak_bytes);
        json_array_append_new(list, row);
    }
    json_set_number(object, "step_ns", stats->point_ns);
    json_object_set_new(object, "points", list);
    return object;
}

static uint64_t bytes_of(const struct trace_stats *stats, unsigned function) {
    uint64_t bytes = 0;
    for (unsigned variant = 0; variant < HT_VARIANTS; variant++)
        bytes += stats->op_bytes[function | variant << 5];
    return bytes;
}

json_t *stats_report_json(const struct trace_stats *stats, const json_t *context) {
    json_t *report = json_object();
    const json_t *command = json_object_get(context, "command"), *time = json_object_get(context, "time");
    json_object_set_new(report, "command", command ? json_deep_copy(command) : json_null());
    json_object_set_new(report, "time",
                        json_string(json_is_string(time) ? json_string_value(time) : "recorded"));
    json_set_number(report, "events", stats->events);
    json_set_number(report, "duration_ns", stats->duration_ns);
    json_set_figure(report, "calls_per_second",
                    stats->duration_ns ? (double)stats->events / ((double)stats->duration_ns / 1e9) : NAN);
    json_set_number(report, "allocations", stats->allocations);
    json_set_number(report, "requests", stats->requests);
    json_set_number(report, "allocated_bytes", stats->allocated_bytes);
    json_set_number(report, "frees", stats->frees);
    json_set_number(report, "freed_bytes", stats->freed_bytes);
    json_set_number(report, "drops", stats->drops);
    json_set_number(report, "inherited_objects", stats->inherited_objects);
    json_set_number(report, "inherited_bytes", stats->inherited_bytes);
    json_set_number(report, "peak_live_bytes", stats->peak_live_bytes);
    json_set_number(report, "peak_event", stats->peak_event);
    json_set_number(report, "peak_time_ns", stats->peak_time_ns);
    json_set_number(report, "zero_sized_requests", stats->zero_sized);
    json_set_number(report, "largest_request_bytes", stats->largest_bytes);
    json_set_number(report, "largest_failed_bytes", stats->failed_largest_bytes);
    set_ratio(report, "calloc_share", stats->op_calls[HT_CALLOC], stats->allocations);
    set_ratio(report, "calloc_bytes_share", bytes_of(stats, HT_CALLOC), stats->allocated_bytes);
    json_object_set_new(report, "functions", functions_of(stats));
    json_object_set_new(report, "size_classes", size_classes_of(stats));
    json_object_set_new(report, "hot_sizes", hot_sizes_of(stats));
    json_object_set_new(report, "lifetimes", lifetimes_of(stats));
    json_object_set_new(report, "threads", threads_of(stats));
    json_object_set_new(report, "reallocs", reallocs_of(stats));
    json_object_set_new(report, "alignments", alignments_of(stats));
    json_object_set_new(report, "churn", churn_of(stats));
    json_object_set_new(report, "sites", site_report_json(&stats->sites));
    return report;
}
