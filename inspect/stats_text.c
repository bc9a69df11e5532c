// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ops.h"
#include "print.h"
#include "site_report.h"
#include "stats_report.h"
#include "talk.h"
#include "text_table.h"

enum { HOT_SIZES = 10, SHOWN_THREADS = 8 };

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
    struct stats_hot_size hot[2][HOT_SIZES];
    char a[HT_NUMBER_OF_BYTES], b[32], c[32], d[32], e[32], f[32];
    size_t count = stats_hot_sizes(stats, false, hot[0], HOT_SIZES);
    if (!count || stats_hot_sizes(stats, true, hot[1], HOT_SIZES) != count) return;
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
