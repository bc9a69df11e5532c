// SPDX-License-Identifier: Apache-2.0
#include "stats_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_values.h"
#include "ops.h"
#include "print.h"
#include "site_stats.h"
#include "talk.h"
#include "text_table.h"

// ---- as text for people ----

enum { HOT_SIZES_TEXT = 10, SHOWN_THREADS = 8 };

static const char *share(char text[32], uint64_t part, uint64_t whole) {
    if (whole) snprintf(text, 32, "%.1f %%", 100.0 * (double)part / (double)whole);
    else snprintf(text, 32, "-");
    return text;
}

// "1.2 ms": three figures.
static const char *duration(char text[32], uint64_t ns) {
    static const char *const unit[] = {"ns", "us", "ms", "s"};
    double value = (double)ns;
    unsigned i = 0;
    for (; value >= 1000 && i < 3; i++) value /= 1000;
    snprintf(text, 32,
             i == 0 || value >= 100 ? "%.0f %s"
             : value >= 10          ? "%.1f %s"
                                    : "%.2f %s",
             value, unit[i]);
    return text;
}

static void print_head(const struct trace_stats *stats, const json_t *context) {
    char a[HT_NUMBER_OF_BYTES], b[HT_NUMBER_OF_BYTES], c[32], d[32];
    const char *command = json_string_value(json_object_get(context, "command"));
    const char *time = json_string_value(json_object_get(context, "time")),
               *frees = json_string_value(json_object_get(context, "frees"));
    bool sliced = json_object_get(context, "sliced_from") != NULL;
    if (command) ht_print(stdout, "%s\n", command);
    double seconds = (double)stats->duration_ns / 1e9;
    ht_print(stdout, "%s by %s in %s", ht_number_of(a, stats->events, "call"),
             ht_number_of(b, stats->facts.threads_count, "thread"), duration(c, stats->duration_ns));
    if (time && !strcmp(time, "nominal")) fputs(" of nominal time (the source has none)", stdout);
    else if (seconds > 0)
        ht_print(stdout, ", %s a second", ht_grouped(d, (uint64_t)((double)stats->events / seconds)));
    if (!strcmp(frees ? frees : "", "assumed"))
        fputs("\nlifetimes are assumed: the source does not say which of several blocks a free ends", stdout);
    ht_print(stdout, "\n%s requested in %s; live peak %s, after %s\n",
             ht_bytes(a, (double)stats->allocated_bytes), ht_number_of(b, stats->requests, "call"),
             ht_bytes(c, (double)stats->peak_live_bytes), duration(d, stats->peak_time_ns));
    if (stats->inherited_objects)
        ht_print(stdout, "begins with %s in %s%s\n", ht_bytes(a, (double)stats->inherited_bytes),
                 ht_number_of(b, stats->inherited_objects, sliced ? "block" : "inherited block"),
                 sliced ? " from before the slice" : "");
}

static void print_functions(const struct trace_stats *stats) {
    char a[HT_NUMBER_OF_BYTES], b[32], c[32];
    ht_print(stdout, "\n%-22s %16s %8s %10s\n", "function", "calls", "share", "bytes");
    for (unsigned function = 1; function < HT_DROP; function++) {
        uint64_t calls = 0, bytes = 0;
        for (unsigned variant = 0; variant < HT_VARIANTS; variant++) {
            calls += stats->op_calls[function | variant << 5];
            bytes += stats->op_bytes[function | variant << 5];
        }
        if (!calls) continue;
        ht_print(stdout, "  %-20s %16s %8s %10s\n", ht_functions[function].name, ht_grouped(a, calls),
                 share(b, calls, stats->events),
                 ht_functions[function].kind >= HT_KIND_FREE ? "" : ht_bytes(c, (double)bytes));
    }
    uint64_t failed = 0;
    for (unsigned op = 0; op < 256; op++)
        if (ht_op_variant((uint8_t)op) == HT_FAILED) failed += stats->op_calls[op];
    if (failed)
        ht_print(stdout, "  %s failed; the largest requested %s\n", ht_number_of(a, failed, "call"),
                 ht_bytes(b, (double)stats->failed_largest_bytes));
}

// Its columns are as wide as what is in them, so that a terminal of 80 columns has room.
static struct ht_text_table table;

static void begin_table(const char *alignments, const char *const *heading) {
    ht_table_begin(&table, alignments, heading);
    putchar('\n');
}

// Four classes to a line: one power of two.
static void print_sizes(const struct trace_stats *stats) {
    char a[32], b[32], c[32], d[32], e[32], f[32];
    begin_table("lrrrrrr",
                (const char *[]){"size", "requests", "share", "bytes", "share", "at peak", "bytes"});
    for (unsigned first = 0; first < STATS_CLASSES; first += first ? 4 : 1) {
        struct stats_size_class sum = {0};
        unsigned last = first ? first + 3 : 0;
        for (unsigned i = first; i <= last && i < STATS_CLASSES; i++) {
            uint64_t live, live_bytes;
            stats_class_at_peak(stats, i, &live, &live_bytes);
            sum.requests += stats->size_class[i].requests;
            sum.bytes += stats->size_class[i].bytes;
            sum.live += live;
            sum.live_bytes += live_bytes;
        }
        if (!sum.requests && !sum.live) continue;
        char span[80] = "  0";
        if (first)
            snprintf(span, sizeof span, "  %s to %s", ht_grouped(a, stats_class_lower(first)),
                     ht_grouped(b, stats_class_upper(last)));
        ht_table_add(&table, (const char *[]){
                                 span, ht_grouped(a, sum.requests), share(b, sum.requests, stats->requests),
                                 ht_bytes(c, (double)sum.bytes), share(d, sum.bytes, stats->allocated_bytes),
                                 ht_grouped(e, sum.live), ht_bytes(f, (double)sum.live_bytes)});
    }
    ht_table_print(stdout, &table);
}

static void print_hot(const struct trace_stats *stats) {
    struct stats_hot_size hot[2][HOT_SIZES_TEXT];
    char a[HT_NUMBER_OF_BYTES], b[32], c[32], d[32], e[32], f[32];
    size_t count = stats_hot_sizes(stats, false, hot[0], HOT_SIZES_TEXT);
    if (!count || stats_hot_sizes(stats, true, hot[1], HOT_SIZES_TEXT) != count) return;
    begin_table("rrrrrr",
                (const char *[]){"hottest sizes", "requests", "share", "by bytes", "bytes", "share"});
    for (size_t i = 0; i < count; i++)
        ht_table_add(&table, (const char *[]){
                                 ht_grouped(a, hot[0][i].size), ht_grouped(b, hot[0][i].requests),
                                 share(c, hot[0][i].requests, stats->requests), ht_grouped(d, hot[1][i].size),
                                 ht_bytes(e, (double)(hot[1][i].size * hot[1][i].requests)),
                                 share(f, hot[1][i].size * hot[1][i].requests, stats->allocated_bytes)});
    ht_table_print(stdout, &table);
    if (stats->uncounted_large)
        ht_print(stdout, "  without %s of large sizes, of which there are more than %d\n",
                 ht_number_of(a, stats->uncounted_large, "request"), STATS_LARGE_SIZES_MAX);
}

static void print_lifetime_bands(const struct trace_stats *stats) {
    char upper[32], count[32], median[STATS_UNITS][32], high[STATS_UNITS][32];
    begin_table("lrrrrrrr", (const char *[]){"lifetime", "blocks", "events", "", "bytes", "", "time", ""});
    for (unsigned band = 0; band < STATS_BANDS; band++) {
        uint64_t blocks = 0, quantile[STATS_UNITS][2];
        for (unsigned i = 0; i < STATS_CLASSES; i++) blocks += stats->lifetime[STATS_EVENTS][band][i];
        if (!blocks) continue;
        for (unsigned unit = 0; unit < STATS_UNITS; unit++) {
            quantile[unit][0] = stats_quantile(stats->lifetime[unit][band], 0.5);
            quantile[unit][1] = stats_quantile(stats->lifetime[unit][band], 0.9);
        }
        bool open = band + 1 == STATS_BANDS;
        char label[64];
        snprintf(label, sizeof label, "  %s %s", open ? "above" : "up to",
                 ht_grouped(upper, stats_band_upper[open ? band - 1 : band]));
        ht_table_add(&table, (const char *[]){label, ht_grouped(count, blocks),
                                              ht_grouped(median[STATS_EVENTS], quantile[STATS_EVENTS][0]),
                                              ht_grouped(high[STATS_EVENTS], quantile[STATS_EVENTS][1]),
                                              ht_bytes(median[STATS_BYTES], (double)quantile[STATS_BYTES][0]),
                                              ht_bytes(high[STATS_BYTES], (double)quantile[STATS_BYTES][1]),
                                              duration(median[STATS_TIME], quantile[STATS_TIME][0]),
                                              duration(high[STATS_TIME], quantile[STATS_TIME][1])});
    }
    ht_table_print(stdout, &table);
}

static void print_lifetimes(const struct trace_stats *stats) {
    char a[HT_NUMBER_OF_BYTES], b[32];
    if (stats->lifetimes) {
        print_lifetime_bands(stats);
        ht_print(stdout, "  (median and p90); %s of them ended within %d events\n",
                 share(a, stats->short_lived, stats->lifetimes), STATS_SHORT_EVENTS);
    }
    fputs(stats->lifetimes ? "  " : "\n", stdout);
    ht_print(stdout, "%s, %s, live at the end\n", ht_number_of(a, stats->live_objects, "block"),
             ht_bytes(b, (double)stats->live_bytes));
}

static const char *thread_label(char text[32], const struct trace_stats *stats, unsigned column) {
    if (column == 0) snprintf(text, 32, "others");
    else snprintf(text, 32, "t%" PRIu32, stats->column[column].thread);
    return text;
}

// The busiest threads and the rest.
static void print_threads(const struct trace_stats *stats) {
    char a[HT_NUMBER_OF_BYTES], b[32];
    if (stats->facts.threads_count < 2) return;
    enum { LABELS = 30, COLUMN = 12 };
    int columns = ht_terminal_columns(stdout);
    unsigned shown = stats->columns - 1 < SHOWN_THREADS ? stats->columns - 1 : SHOWN_THREADS;
    // With one more for all others.
    while (columns && shown > 1 && LABELS + (int)(shown + 1) * COLUMN > columns) shown--;
    bool others = stats->others || stats->columns - 1 > shown;
    uint64_t frees[SHOWN_THREADS + 1][SHOWN_THREADS + 1] = {0};
    for (unsigned by = 0; by < stats->columns; by++)
        for (unsigned of = 0; of < stats->columns; of++)
            frees[by <= shown ? by : 0][of <= shown ? of : 0] += stats->pair[by][of].frees;
    ht_print(stdout, "\n%-16s", "allocated by");
    for (unsigned i = 1; i <= shown + others; i++)
        ht_print(stdout, " %11s", thread_label(a, stats, i <= shown ? i : 0));
    fputs("   <- freed by\n", stdout);
    for (unsigned by = 1; by <= shown + others; by++) {
        unsigned row = by <= shown ? by : 0;
        const char *name = row ? stats->facts.threads[stats->column[row].thread].name : "";
        ht_print(stdout, "  %-6s %-7.7s", thread_label(a, stats, row), name);
        for (unsigned i = 1; i <= shown + others; i++)
            ht_print(stdout, " %11s", ht_grouped(b, frees[row][i <= shown ? i : 0]));
        putchar('\n');
    }
    ht_print(stdout, "  %s, %s, of blocks of other threads\n", ht_number_of(a, stats->cross_frees, "free"),
             share(b, stats->cross_frees, stats->frees));
}

// How much reallocs changed sizes: each one, and over the lives of the blocks that had any.
static void print_ratios(const struct stats_reallocs *reallocs) {
    static const char *const name[STATS_RATIOS] = {
        "half or less", "smaller",   "same",      "up to 1.125 x", "up to 1.25 x",
        "up to 1.5 x",  "up to 2 x", "up to 4 x", "up to 16 x",    "more"};
    char a[32], b[32], c[32], d[32];
    ht_print(stdout, "  %-20s %14s %8s   %16s %8s\n", "new size to old", "reallocs", "share",
             "last to first, blocks", "share");
    for (unsigned i = 0; i < STATS_RATIOS; i++)
        if (reallocs->ratio[i] || reallocs->chain_growth[i])
            ht_print(stdout, "    %-18s %14s %8s   %21s %8s\n", name[i], ht_grouped(a, reallocs->ratio[i]),
                     share(b, reallocs->ratio[i], reallocs->resized),
                     ht_grouped(c, reallocs->chain_growth[i]),
                     share(d, reallocs->chain_growth[i], reallocs->chains));
}

static void print_reallocs(const struct trace_stats *stats) {
    const struct stats_reallocs *reallocs = &stats->reallocs;
    uint64_t half = stats_quantile(reallocs->chain_length, 0.5);
    char a[HT_NUMBER_OF_BYTES], b[HT_NUMBER_OF_BYTES], c[HT_NUMBER_OF_BYTES], d[32];
    if (!reallocs->resized) return;
    ht_print(stdout, "\nreallocs of a block  %s: %s grown, %s shrunk, %s of the same size\n",
             ht_grouped(a, reallocs->resized), ht_grouped(b, reallocs->grown),
             ht_grouped(c, reallocs->shrunk), ht_grouped(d, reallocs->same));
    ht_print(stdout, "  %s added, %s to copy if every one moved\n",
             ht_bytes(a, (double)reallocs->added_bytes), ht_bytes(b, (double)reallocs->kept_bytes));
    ht_print(stdout, "  resized: %s, half of them at most %s, one %s\n",
             ht_number_of(a, reallocs->chains, "block"), ht_number_of(b, half, "time"),
             ht_number_of(c, reallocs->longest_chain, "time"));
    print_ratios(reallocs);
}

static void print_alignments(const struct trace_stats *stats) {
    char a[32], b[32];
    bool any = stats->odd_alignments > 0;
    for (unsigned i = 0; i < STATS_ALIGNMENTS; i++) any = any || stats->alignment[i];
    if (!any) return;
    ht_print(stdout, "\nrequested alignments, %s in all\n", ht_bytes(a, (double)stats->aligned_bytes));
    for (unsigned i = 0; i < STATS_ALIGNMENTS - 1; i++)
        if (stats->alignment[i])
            ht_print(stdout, "  %-14s %16s\n", ht_grouped(a, UINT64_C(1) << i),
                     ht_grouped(b, stats->alignment[i]));
    if (stats->odd_alignments)
        ht_print(stdout, "  %-14s %16s\n", "no power of 2", ht_grouped(b, stats->odd_alignments));
}

static void print_churn(const struct trace_stats *stats) {
    char a[32], b[32], c[32], d[32], e[32], f[32], g[32], from[40];
    begin_table("rrrrrrr", (const char *[]){"from", "calls", "calls a second", "allocated", "freed",
                                            "live, end", "peak"});
    for (uint32_t i = 0; i < stats->points_used; i++) {
        const struct stats_point *point = &stats->point[i];
        uint64_t ns = stats->point_ns;
        if (i + 1 == stats->points_used && stats->duration_ns + 1 - i * ns < ns)
            ns = stats->duration_ns + 1 - i * ns;
        if (table.rows == HT_TABLE_ROWS_MAX) {  // the next ones are aligned by themselves
            ht_table_print(stdout, &table);
            table.rows = 0;
        }
        snprintf(from, sizeof from, "  %s", duration(a, i * stats->point_ns));
        ht_table_add(&table,
                     (const char *[]){from, ht_grouped(b, point->calls),
                                      ht_grouped(c, (uint64_t)((double)point->calls * 1e9 / (double)ns)),
                                      ht_bytes(d, (double)point->allocated_bytes),
                                      ht_bytes(e, (double)point->freed_bytes),
                                      ht_bytes(f, (double)point->live_end_bytes),
                                      ht_bytes(g, (double)point->live_peak_bytes)});
    }
    ht_table_print(stdout, &table);
}

void stats_report_text(const struct trace_stats *stats, const json_t *context) {
    print_head(stats, context);
    print_functions(stats);
    print_sizes(stats);
    print_hot(stats);
    print_lifetimes(stats);
    print_threads(stats);
    print_reallocs(stats);
    print_alignments(stats);
    print_churn(stats);
    site_report_text(&stats->sites);
}

// ---- as JSON ----

enum { HOT_SIZES_JSON = 32 };

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
        struct stats_hot_size hot[HOT_SIZES_JSON];
        size_t count = stats_hot_sizes(stats, by_bytes, hot, HOT_SIZES_JSON);
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

static json_t *ended_of(const struct trace_stats *stats) {
    json_t *list = json_array();
    for (unsigned i = 0; i < STATS_CLASSES; i++) {
        const struct stats_ended_class *class = &stats->ended_class[i];
        if (!class->blocks) continue;
        json_t *row = json_object();
        json_set_number(row, "from_events", stats_class_lower(i));
        set_upper(row, "to_events", stats_class_upper(i));
        json_set_number(row, "blocks", class->blocks);
        json_set_number(row, "bytes", class->bytes);
        json_array_append_new(list, row);
    }
    return list;
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
    json_object_set_new(lifetimes, "ended", ended_of(stats));
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
        json_set_number(row, "live_peak_time_ns", point->live_peak_time_ns);
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
