// SPDX-License-Identifier: Apache-2.0
#include "figures_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beside_medians.h"
#include "print.h"
#include "talk.h"
#include "text_table.h"

enum { CELL_BYTES = 64, TIMED_LEAST = 100 };  // sizes of fewer timed calls are left to --json

static const char *number(double value, double unit, const char *format, char *text) {
    if (isnan(value)) snprintf(text, CELL_BYTES, "n/a");
    else snprintf(text, CELL_BYTES, format, value / unit);
    return text;
}

static const char *grouped(double value, char *text) {
    if (isnan(value)) return number(value, 1, "%.0f", text);
    if (value >= 0) return ht_grouped(text, (uint64_t)llround(value));
    text[0] = '-';
    ht_grouped(text + 1, (uint64_t)llround(-value));
    return text;
}

static const char *name_of(const struct ht_comparison *c, size_t i) { return c->plan->choices.list[i].name; }

static const struct ht_choice_figures *figures_of(const struct ht_comparison *c, size_t i) {
    return &c->measurements->of_choices[i + 1];
}

void ht_harness_share_print(FILE *out, const struct ht_comparison *c) {
    bool begun = false;
    for (size_t i = 0; i < c->count; i++) {
        double share = ht_beside_medians(c, i).harness_share;
        if (isnan(share)) continue;
        ht_print(out, "%s %s %.0f %%", begun ? "," : "harness's share of the time measured:", name_of(c, i),
                 100 * share);
        begun = true;
    }
    if (begun) fputc('\n', out);
}

void ht_huge_pages_print(FILE *out, const struct ht_comparison *c) {
    double most = 0;
    for (size_t i = 0; i < c->count; i++) {
        most = fmax(most, ht_beside_medians(c, i).leftovers.anon_huge_peak_bytes);
    }
    if (!(most > 0) && strcmp(c->thp, "always") && c->plan->thp == HT_THP_AS_IS) return;
    ht_print(out, "transparent huge pages: %s", *c->thp ? c->thp : "n/a");
    for (size_t i = 0; i < c->count && c->plan->memory_pass; i++) {
        char text[CELL_BYTES];
        double bytes = ht_beside_medians(c, i).leftovers.anon_huge_peak_bytes;
        ht_print(out, "%s %s %s", i ? "," : "; of peak RSS in them:", name_of(c, i),
                 number(bytes, 1e6, "%.1f MB", text));
    }
    fputc('\n', out);
}

void ht_processors_print(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table table;
    ht_table_begin(&table, "lrrll",
                   (const char *[]){"allocator", "arenas", "at most", "asked", "makes of the processors"});
    for (size_t i = 0; i < c->count; i++) {
        struct ht_beside_medians medians = ht_beside_medians(c, i);
        const struct ht_allocator *kind = c->plan->choices.list[i].kind;
        const char *makes = kind ? kind->by_processors : NULL;
        char text[2][CELL_BYTES];
        ht_table_add(&table,
                     (const char *[]){name_of(c, i), number(medians.arenas.used, 1, "%.0f", text[0]),
                                      number(medians.arenas.most, 1, "%.0f", text[1]),
                                      medians.processors_asked ? "yes" : "no", makes ? makes : "not known"});
    }
    ht_print(out, "\nprocessors shown: %" PRIu32 "\n", c->plan->processors);
    ht_table_print(out, &table);
}

static void add_latency_row(struct ht_text_table *table, const char *what,
                            const struct ht_histogram *histogram, uint64_t least) {
    struct ht_percentiles p = ht_percentiles_of(histogram);
    char text[6][CELL_BYTES];
    if (p.count < least) return;
    // Of too few calls a high percentile is nothing but the longest of them.
    if (p.count < 100) p.p99_ns = NAN;
    if (p.count < 1000) p.p999_ns = NAN;
    ht_table_add(table,
                 (const char *[]){number(p.p50_ns, 1, "%.1f", text[0]), number(p.p90_ns, 1, "%.1f", text[1]),
                                  number(p.p99_ns, 1, "%.1f", text[2]), number(p.p999_ns, 1, "%.0f", text[3]),
                                  number(p.max_ns, 1, "%.0f", text[4]), ht_grouped(text[5], p.count), what});
}

static const char *class_text(unsigned class, char *text) {
    static const char *const units[] = {"", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    snprintf(text, CELL_BYTES, "%u%s", 1u << class % 10, units[class / 10]);
    return text;
}

static void print_latencies(FILE *out, const struct ht_comparison *c, size_t allocator) {
    static struct ht_text_table table;
    const struct ht_latencies *latencies = &figures_of(c, allocator)->latencies;
    char timed[HT_NUMBER_OF_BYTES], dropped[HT_NUMBER_OF_BYTES], class[CELL_BYTES], what[2 * CELL_BYTES];
    if (!latencies->taken) return;
    ht_table_begin(&table, "rrrrrrl",
                   (const char *[]){"p50", "p90", "p99", "p99.9", "max", "timed", "latency in ns"});
    for (int i = 0; i < HT_FUNCTIONS; i++)
        add_latency_row(&table, ht_functions[i].name, &latencies->functions[i], 1);
    for (int kind = HT_KIND_ALLOC; kind < HT_KINDS; kind++) {
        for (unsigned i = 0; i < HT_SIZE_CLASSES && table.rows < HT_TABLE_ROWS_MAX; i++) {
            snprintf(what, sizeof what, "%s up to %s", ht_latency_kind_names[kind], class_text(i, class));
            add_latency_row(&table, what, &latencies->sizes[kind][i], TIMED_LEAST);
        }
    }
    ht_print(out, "\n%s\n", name_of(c, allocator));
    ht_table_print(out, &table);
    ht_print(out,
             "%s timed, %s dropped because the thread was switched out; the clock's own "
             "%.1f ns are subtracted from each\n",
             ht_number_of(timed, latencies->taken, "call"),
             ht_number_of(dropped, latencies->dropped, "reading"), latencies->floor_ns);
}

static void print_counters(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table table;
    uint32_t refusal = 0;
    ht_table_begin(&table, "lrrrrrrr",
                   (const char *[]){"allocator", "instructions", "cycles", "cache misses", "LLC misses",
                                    "dTLB misses", "branch misses", "switches"});
    for (size_t i = 0; i < c->count; i++) {
        struct ht_counter_figures counters = ht_beside_medians(c, i).counters;
        char text[7][CELL_BYTES];
        const char *row[8] = {name_of(c, i)};
        for (int k = 0; k < HT_PERF_CONTEXT_SWITCHES; k++) row[k + 1] = grouped(counters.perf[k], text[k]);
        row[7] = grouped(counters.voluntary_switches + counters.involuntary_switches, text[6]);
        ht_table_add(&table, row);
        if (counters.refusal) refusal = counters.refusal;
    }
    fputc('\n', out);
    ht_table_print(out, &table);
    if (refusal) ht_print(out, "n/a, processor counters: %s\n", ht_perf_refusal_text(refusal));
}

static void print_syscalls(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table table;
    const char *problem = NULL;
    ht_table_begin(&table, "lrrrrrrr",
                   (const char *[]){"system calls", ht_syscall_names[0], ht_syscall_names[1],
                                    ht_syscall_names[2], ht_syscall_names[3], ht_syscall_names[4],
                                    ht_syscall_names[5], "MB unmapped or advised"});
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_choice_figures *of = figures_of(c, i);
        char text[HT_SYSCALLS + 1][CELL_BYTES];
        const char *row[HT_SYSCALLS + 2] = {name_of(c, i)};
        for (int k = 0; k < HT_SYSCALLS; k++) {
            row[k + 1] = grouped(of->syscalls_counted ? (double)of->syscalls.calls[k] : NAN, text[k]);
        }
        uint64_t bytes = of->syscalls.bytes[HT_SYSCALL_MUNMAP] + of->syscalls.bytes[HT_SYSCALL_MADVISE];
        row[HT_SYSCALLS + 1] =
            number(of->syscalls_counted ? (double)bytes : NAN, 1e6, "%.1f", text[HT_SYSCALLS]);
        ht_table_add(&table, row);
        if (ht_syscalls_missing(of)) problem = ht_syscalls_missing(of);
    }
    fputc('\n', out);
    ht_table_print(out, &table);
    if (problem) ht_print(out, "n/a: %s\n", problem);
}

static const char *megabytes(double bytes, char *text) { return number(bytes, 1e6, "%.2f MB", text); }

static const char *share_text(double bytes, double rss_bytes, char *text) {
    if (isnan(bytes) || !(rss_bytes > 0)) return megabytes(bytes, text);
    snprintf(text, CELL_BYTES, "%.2f MB %5.1f %%", bytes / 1e6, 100 * bytes / rss_bytes);
    return text;
}

// The cells that a part has in both of its tables.
enum { PART_CELLS = 5 };
static void put_part(const struct ht_decomposition_part *part, const char **row,
                     char text[PART_CELLS][CELL_BYTES]) {
    double rss_bytes = part->rss_bytes;
    row[0] = megabytes(rss_bytes, text[0]);
    row[1] = share_text(part->requested_bytes, rss_bytes, text[1]);
    row[2] = share_text(part->internal_bytes, rss_bytes, text[2]);
    row[3] = share_text(part->untouched_bytes, rss_bytes, text[3]);
    row[4] = share_text(part->other_bytes, rss_bytes, text[4]);
}

static void print_decomposition(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table peak, end;
    ht_table_begin(&peak, "lrrrrrr",
                   (const char *[]){"at peak RSS", "one run's RSS", "= live, requested", "+ internal",
                                    "- untouched", "+ cached, external, metadata", "(LazyFree in it)"});
    ht_table_begin(&end, "lrrrrrrr",
                   (const char *[]){"at the end", "one run's RSS", "= live, requested", "+ internal",
                                    "- untouched", "+ cached, external, metadata", "all freed", "purged"});
    for (size_t i = 0; i < c->count; i++) {
        struct ht_decomposition parts = ht_beside_medians(c, i).decomposition;
        char text[PART_CELLS + 2][CELL_BYTES];
        const char *row[PART_CELLS + 3] = {name_of(c, i)};
        put_part(&parts.peak, row + 1, text);
        row[6] = megabytes(parts.peak.lazyfree_bytes, text[5]);
        ht_table_add(&peak, row);
        put_part(&parts.end, row + 1, text);
        row[6] = share_text(parts.after_free_bytes, parts.end.rss_bytes, text[5]);
        row[7] = share_text(parts.after_purge_bytes, parts.end.rss_bytes, text[6]);
        ht_table_add(&end, row);
    }
    fputc('\n', out);
    ht_table_print(out, &peak);
    fputc('\n', out);
    ht_table_print(out, &end);
}

static void print_leftovers(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table table;
    ht_table_begin(&table, "lrrrrr",
                   (const char *[]){"allocator", "slop at peak", "mean slop", "LazyFree at end",
                                    "huge pages at end", "swapped at end"});
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_accounting_figures *accounting = &figures_of(c, i)->accounting;
        struct ht_leftover_figures left = ht_beside_medians(c, i).leftovers;
        char text[5][CELL_BYTES];
        bool measured = accounting->child != NULL;
        ht_table_add(
            &table,
            (const char *[]){name_of(c, i), megabytes(measured ? accounting->slop_peak_bytes : NAN, text[0]),
                             megabytes(measured ? accounting->slop_mean_bytes : NAN, text[1]),
                             megabytes(left.lazyfree_bytes, text[2]),
                             megabytes(left.anon_huge_bytes, text[3]), megabytes(left.swap_bytes, text[4])});
    }
    fputc('\n', out);
    ht_table_print(out, &table);
}

static void print_report(FILE *out, const struct ht_comparison *c, size_t allocator, const char *where,
                         const struct ht_report_row *row) {
    const struct ht_child_figures *child = figures_of(c, allocator)->accounting.child;
    ht_print(out, "%s's own figures %s, in MB: requested %.2f", name_of(c, allocator), where,
             (double)row->live_bytes / 1e6);
    for (uint32_t i = 0; i < child->report_values; i++) {
        const char *name = child->report_names[i];
        char text[CELL_BYTES];
        fprintf(
            out, ", %.*s %s", (int)(strlen(name) - strlen("_bytes")), name,
            number(row->values[i] == HT_FIGURE_UNKNOWN ? NAN : (double)row->values[i], 1e6, "%.2f", text));
    }
    fputc('\n', out);
}

static void print_reports(FILE *out, const struct ht_comparison *c, size_t allocator) {
    const struct ht_accounting_figures *accounting = &figures_of(c, allocator)->accounting;
    const struct ht_report_row *peak = ht_report_at_peak(accounting);
    if (!accounting->child || !accounting->child->report_values) return;
    if (peak) print_report(out, c, allocator, "at the live peak", peak);
    print_report(out, c, allocator, "at the end", &accounting->child->report_end);
}

void ht_figures_print(FILE *out, const struct ht_comparison *c) {
    for (size_t i = 0; i < c->count && c->plan->time_pass; i++) print_latencies(out, c, i);
    if (c->plan->time_pass) print_counters(out, c);
    print_syscalls(out, c);
    if (c->plan->memory_pass) print_decomposition(out, c);
    print_leftovers(out, c);
    fputc('\n', out);
    for (size_t i = 0; i < c->count; i++) print_reports(out, c, i);
}
