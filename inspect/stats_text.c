#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ops.h"
#include "print.h"
#include "stats_report.h"
#include "talk.h"

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
    char a[32], b[32], c[32], d[32];
    const char *command = json_string_value(json_object_get(context, "command"));
    const char *time = json_string_value(json_object_get(context, "time"));
    if (command) ht_print(stdout, "%s\n", command);
    double seconds = (double)stats->duration_ns / 1e9;
    ht_print(stdout, "%s calls by %s thread%s in %s", ht_grouped(a, stats->events),
             ht_grouped(b, stats->facts.threads_count), stats->facts.threads_count == 1 ? "" : "s",
             duration(c, stats->duration_ns));
    if (time && !strcmp(time, "nominal")) fputs(" of nominal time (the source has none)", stdout);
    else if (seconds > 0)
        ht_print(stdout, ", %s a second", ht_grouped(d, (uint64_t)((double)stats->events / seconds)));
    ht_print(stdout, "\n%s asked for in %s requests; at most %s live, after %s\n",
             ht_bytes(a, (double)stats->allocated_bytes), ht_grouped(b, stats->requests),
             ht_bytes(c, (double)stats->peak_live_bytes), duration(d, stats->peak_time_ns));
    if (stats->inherited_objects)
        ht_print(stdout, "begins with %s in %s inherited blocks\n",
                 ht_bytes(a, (double)stats->inherited_bytes), ht_grouped(b, stats->inherited_objects));
}

static void print_functions(const struct trace_stats *stats) {
    char a[32], b[32], c[32];
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
                 ht_functions[function].kind == HT_KIND_FREE ? "" : ht_bytes(c, (double)bytes));
    }
    uint64_t failed = 0;
    for (unsigned op = 0; op < 256; op++)
        if (ht_op_variant((uint8_t)op) == HT_FAILED) failed += stats->op_calls[op];
    if (failed)
        ht_print(stdout, "  %s calls failed; the largest of them asked for %s\n", ht_grouped(a, failed),
                 ht_bytes(b, (double)stats->failed_largest_bytes));
}

// Four classes to a line: one power of two.
static void print_sizes(const struct trace_stats *stats) {
    char a[32], b[32], c[32], d[32], e[32], f[32];
    ht_print(stdout, "\n%-22s %16s %8s %10s %8s %16s %10s\n", "size", "requests", "share", "bytes", "share",
             "live at peak", "bytes");
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
        char span[64];
        if (first)
            snprintf(span, sizeof span, "%s to %s", ht_grouped(a, stats_class_lower(first)),
                     ht_grouped(b, stats_class_upper(last)));
        else snprintf(span, sizeof span, "0");
        ht_print(stdout, "  %-20s %16s %8s %10s %8s %16s %10s\n", span, ht_grouped(a, sum.requests),
                 share(b, sum.requests, stats->requests), ht_bytes(c, (double)sum.bytes),
                 share(d, sum.bytes, stats->allocated_bytes), ht_grouped(e, sum.live),
                 ht_bytes(f, (double)sum.live_bytes));
    }
}

static void print_hot(const struct trace_stats *stats) {
    struct stats_hot_size hot[2][HOT_SIZES];
    char a[32], b[32], c[32], d[32], e[32];
    size_t count = stats_hot_sizes(stats, false, hot[0], HOT_SIZES);
    if (!count || stats_hot_sizes(stats, true, hot[1], HOT_SIZES) != count) return;
    ht_print(stdout, "\n%-16s %16s %8s     %-16s %10s %8s\n", "hottest sizes", "requests", "share",
             "by bytes", "bytes", "share");
    for (size_t i = 0; i < count; i++)
        ht_print(stdout, "  %14s %16s %8s     %14s   %10s %8s\n", ht_grouped(a, hot[0][i].size),
                 ht_grouped(b, hot[0][i].requests), share(c, hot[0][i].requests, stats->requests),
                 ht_grouped(d, hot[1][i].size), ht_bytes(e, (double)(hot[1][i].size * hot[1][i].requests)),
                 share((char[32]){0}, hot[1][i].size * hot[1][i].requests, stats->allocated_bytes));
    if (stats->uncounted_large)
        ht_print(stdout, "  %s requests of more than %d distinct large sizes are not among them\n",
                 ht_grouped(a, stats->uncounted_large), STATS_LARGE_SIZES_MAX);
}

static void print_lifetimes(const struct trace_stats *stats) {
    char a[32], b[32], c[32], d[32], e[32], f[32], g[32];
    if (stats->lifetimes) {
        ht_print(stdout, "\n%-16s %16s   %s\n", "lifetime", "blocks",
                 "in events: median, p90      in bytes asked for            in time");
        for (unsigned band = 0; band < STATS_BANDS; band++) {
            uint64_t blocks = 0;
            for (unsigned i = 0; i < STATS_CLASSES; i++) blocks += stats->lifetime[STATS_EVENTS][band][i];
            if (!blocks) continue;
            bool open = band + 1 == STATS_BANDS;
            ht_print(stdout, "  %-5s %9s %15s   ", open ? "above" : "up to",
                     ht_grouped(a, stats_band_upper[open ? band - 1 : band]), ht_grouped(b, blocks));
            ht_print(stdout, "%12s %12s   %11s %11s   %9s %9s\n",
                     ht_grouped(a, stats_quantile(stats->lifetime[STATS_EVENTS][band], 0.5)),
                     ht_grouped(b, stats_quantile(stats->lifetime[STATS_EVENTS][band], 0.9)),
                     ht_bytes(c, (double)stats_quantile(stats->lifetime[STATS_BYTES][band], 0.5)),
                     ht_bytes(d, (double)stats_quantile(stats->lifetime[STATS_BYTES][band], 0.9)),
                     duration(e, stats_quantile(stats->lifetime[STATS_TIME][band], 0.5)),
                     duration(f, stats_quantile(stats->lifetime[STATS_TIME][band], 0.9)));
        }
        ht_print(stdout, "  %s of them ended within %d events\n",
                 share(g, stats->short_lived, stats->lifetimes), STATS_SHORT_EVENTS);
    }
    ht_print(stdout, "%s%s blocks, %s, live at the end\n", stats->lifetimes ? "  " : "\n",
             ht_grouped(a, stats->live_objects), ht_bytes(b, (double)stats->live_bytes));
}

static const char *thread_label(char text[32], const struct trace_stats *stats, unsigned column) {
    if (column == 0) snprintf(text, 32, "others");
    else snprintf(text, 32, "t%" PRIu32, stats->column[column].thread);
    return text;
}

// The busiest threads and the rest.
static void print_threads(const struct trace_stats *stats) {
    char a[32], b[32];
    if (stats->facts.threads_count < 2) return;
    unsigned shown = stats->columns - 1 < SHOWN_THREADS ? stats->columns - 1 : SHOWN_THREADS;
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
    ht_print(stdout, "  %s frees, %s, of another thread's block\n", ht_grouped(a, stats->cross_frees),
             share(b, stats->cross_frees, stats->frees));
}

// How much reallocs changed sizes: each one, and over the lives of the blocks that had any.
static void print_ratios(const struct stats_reallocs *reallocs) {
    static const char *const name[STATS_RATIOS] = {
        "half or less", "smaller",   "same",      "up to 1.125 x", "up to 1.25 x",
        "up to 1.5 x",  "up to 2 x", "up to 4 x", "up to 16 x",    "more"};
    char a[32], b[32], c[32], d[32];
    ht_print(stdout, "  %-20s %16s %8s   %16s %8s\n", "new size to old", "reallocs", "share",
             "last to first, blocks", "share");
    for (unsigned i = 0; i < STATS_RATIOS; i++)
        if (reallocs->ratio[i] || reallocs->chain_growth[i])
            ht_print(stdout, "    %-18s %16s %8s   %21s %8s\n", name[i], ht_grouped(a, reallocs->ratio[i]),
                     share(b, reallocs->ratio[i], reallocs->resized),
                     ht_grouped(c, reallocs->chain_growth[i]),
                     share(d, reallocs->chain_growth[i], reallocs->chains));
}

static void print_reallocs(const struct trace_stats *stats) {
    const struct stats_reallocs *reallocs = &stats->reallocs;
    char a[32], b[32], c[32], d[32];
    if (!reallocs->resized) return;
    ht_print(stdout, "\nreallocs of a block  %s: %s grown, %s shrunk, %s kept their size\n",
             ht_grouped(a, reallocs->resized), ht_grouped(b, reallocs->grown),
             ht_grouped(c, reallocs->shrunk), ht_grouped(d, reallocs->same));
    ht_print(stdout, "  %s added, %s to copy if every one moved\n",
             ht_bytes(a, (double)reallocs->added_bytes), ht_bytes(b, (double)reallocs->kept_bytes));
    ht_print(stdout, "  %s blocks were resized, half of them %s times or less, one %s times\n",
             ht_grouped(a, reallocs->chains), ht_grouped(b, stats_quantile(reallocs->chain_length, 0.5)),
             ht_grouped(c, reallocs->longest_chain));
    print_ratios(reallocs);
}

static void print_alignments(const struct trace_stats *stats) {
    char a[32], b[32];
    bool any = stats->odd_alignments > 0;
    for (unsigned i = 0; i < STATS_ALIGNMENTS; i++) any = any || stats->alignment[i];
    if (!any) return;
    ht_print(stdout, "\nalignments asked for, %s in all\n", ht_bytes(a, (double)stats->aligned_bytes));
    for (unsigned i = 0; i < STATS_ALIGNMENTS - 1; i++)
        if (stats->alignment[i])
            ht_print(stdout, "  %-14s %16s\n", ht_grouped(a, UINT64_C(1) << i),
                     ht_grouped(b, stats->alignment[i]));
    if (stats->odd_alignments)
        ht_print(stdout, "  %-14s %16s\n", "no power of 2", ht_grouped(b, stats->odd_alignments));
}

static void print_churn(const struct trace_stats *stats) {
    char a[32], b[32], c[32], d[32], e[32], f[32];
    ht_print(stdout, "\n%-12s %16s %16s %10s %10s %10s %10s\n", "from", "calls", "calls a second",
             "allocated", "freed", "live, end", "peak");
    for (uint32_t i = 0; i < stats->points_used; i++) {
        const struct stats_point *point = &stats->point[i];
        uint64_t ns = stats->point_ns;
        if (i + 1 == stats->points_used && stats->duration_ns + 1 - i * ns < ns)
            ns = stats->duration_ns + 1 - i * ns;
        ht_print(stdout, "  %10s %16s", duration(a, i * stats->point_ns), ht_grouped(b, point->calls));
        ht_print(stdout, " %16s %10s %10s %10s %10s\n",
                 ht_grouped(b, (uint64_t)((double)point->calls * 1e9 / (double)ns)),
                 ht_bytes(c, (double)point->allocated_bytes), ht_bytes(d, (double)point->freed_bytes),
                 ht_bytes(e, (double)point->live_end_bytes), ht_bytes(f, (double)point->live_peak_bytes));
    }
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
}
