// The comparison as a table for people.
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"

enum { CELL_BYTES = 64 };

static const char *ratio_text(const struct ht_interval *ratio, bool baseline, char *text) {
    if (isnan(ratio->estimate)) snprintf(text, CELL_BYTES, "-");
    else if (baseline) snprintf(text, CELL_BYTES, "1.00");
    else if (isnan(ratio->low)) snprintf(text, CELL_BYTES, "%.2f", ratio->estimate);
    else snprintf(text, CELL_BYTES, "%.2f [%.2f, %.2f]", ratio->estimate, ratio->low, ratio->high);
    return text;
}

static const char *number_text(double value, double unit, const char *format, char *text) {
    if (isnan(value)) snprintf(text, CELL_BYTES, "-");
    else snprintf(text, CELL_BYTES, format, value / unit);
    return text;
}

static const char *seconds_text(double ns, char *text) {
    return number_text(ns, 1e9, fabs(ns) < 1e8 ? "%.4f s" : "%.2f s", text);
}

static void print_heading(FILE *out, const struct ht_comparison *c) {
    const struct ht_recorded_program *program = c->program;
    char *copy = strdup(c->options->trace_path);
    fprintf(out, "%s", copy ? basename(copy) : c->options->trace_path);
    free(copy);
    if (program->command[0]) fprintf(out, "  %.70s", program->command);
    if (program->allocator[0]) {
        fprintf(out, ", recorded under %s%s%s", program->allocator, program->allocator_version[0] ? " " : "",
                program->allocator_version);
    }
    fprintf(out, "; %" PRIu64 " calls, %zu round%s, seed %" PRIu64 "\n", c->built->calls_total, c->rounds,
            c->rounds == 1 ? "" : "s", c->options->seed);
}

static const char *verdict_text(enum ht_verdict verdict, const char *less, const char *more) {
    switch (verdict) {
    case HT_VERDICT_LESS: return less;
    case HT_VERDICT_MORE: return more;
    case HT_VERDICT_SAME: return "same";
    case HT_VERDICT_UNRESOLVED: return "unresolved";
    default: return "";
    }
}

static void print_time(FILE *out, const struct ht_comparison *c) {
    char versus[160], a[CELL_BYTES], b[CELL_BYTES], r[CELL_BYTES], f[CELL_BYTES];
    const struct ht_choice *list = c->options->choices.list;
    snprintf(versus, sizeof versus, "vs %s", list[c->baseline].name);
    fprintf(out, "\n%-18s %9s %12s   %-20s %9s  %s\n", "allocator", "time", "per call", versus, "faults", "verdict");
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_allocator_estimates *e = &c->allocators[i];
        char name[160];
        snprintf(name, sizeof name, "%.100s %.50s", list[i].name, list[i].version);
        fprintf(out, "%-18s %9s %12s   %-20s %9s  %s\n", name, seconds_text(e->time_ns.median, a),
                number_text(e->ns_per_call, 1, "%.1f ns", b), ratio_text(&e->time_ns.ratio, i == c->baseline, r),
                number_text(e->faults, 1, "%.0f", f), verdict_text(e->time_ns.verdict, "faster", "slower"));
    }
}

static void print_memory(FILE *out, const struct ht_comparison *c) {
    char versus[160], p[CELL_BYTES], r[CELL_BYTES], m[CELL_BYTES], e[CELL_BYTES], f[CELL_BYTES];
    const struct ht_choice *list = c->options->choices.list;
    snprintf(versus, sizeof versus, "vs %s", list[c->baseline].name);
    fprintf(out, "\n%-18s %9s   %-20s %9s %9s %7s  %s\n", "allocator", "peak RSS", versus, "mean RSS", "at end",
            "frag F4", "verdict");
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_allocator_estimates *of = &c->allocators[i];
        char name[160];
        snprintf(name, sizeof name, "%.100s %.50s", list[i].name, list[i].version);
        fprintf(out, "%-18s %9s   %-20s %9s %9s %7s  %s\n", name, number_text(of->rss_peak.median, 1e6, "%.1f MB", p),
                ratio_text(&of->rss_peak.ratio, i == c->baseline, r),
                number_text(of->rss_mean.median, 1e6, "%.1f MB", m), number_text(of->rss_end.median, 1e6, "%.1f MB", e),
                number_text(of->fragmentation[3], 1, "%.2f", f),
                verdict_text(of->rss_peak.verdict, "smaller", "larger"));
    }
}

static const struct ht_estimate *time_estimate(const struct ht_allocator_estimates *e) { return &e->time_ns; }
static const struct ht_estimate *peak_estimate(const struct ht_allocator_estimates *e) { return &e->rss_peak; }

// The allocator with the least of something, or -1 if nothing was measured.
static int least(const struct ht_comparison *c, const struct ht_estimate *(*of)(const struct ht_allocator_estimates *)) {
    int best = -1;
    for (size_t i = 0; i < c->count; i++) {
        double value = of(&c->allocators[i])->median;
        if (!isnan(value) && (best < 0 || value < of(&c->allocators[best])->median)) best = (int)i;
    }
    return best;
}

static void print_best(FILE *out, const struct ht_comparison *c) {
    int fastest = least(c, time_estimate), smallest = least(c, peak_estimate);
    const struct ht_choice *list = c->options->choices.list;
    if (c->count < 2 || (fastest < 0 && smallest < 0)) return;
    fprintf(out, "\n");
    if (fastest >= 0) {
        const struct ht_interval *ratio = &c->allocators[fastest].time_ns.ratio;
        fprintf(out, "fastest: %s", list[fastest].name);
        if ((size_t)fastest != c->baseline && ratio->estimate > 0) {
            fprintf(out, ", %.2fx %s's speed", 1 / ratio->estimate, list[c->baseline].name);
            if (!isnan(ratio->low) && ratio->low > 0) fprintf(out, " [%.2f, %.2f]", 1 / ratio->high, 1 / ratio->low);
        }
        fprintf(out, ".  ");
    }
    if (smallest >= 0) fprintf(out, "smallest peak: %s.", list[smallest].name);
    fprintf(out, "\n");
}

static void print_recorded(FILE *out, const struct ht_comparison *c) {
    const struct ht_recorded_program *program = c->program;
    int served = ht_comparison_recorded(c);
    if (c->options->memory_pass && !isnan(program->rss_peak_bytes)) {
        fprintf(out, "recorded program: %.1f MB peak RssAnon, of it %.1f MB heap", program->rss_peak_bytes / 1e6,
                program->heap_peak_bytes / 1e6);
        double replayed = served >= 0 ? c->allocators[served].rss_peak.median : NAN;
        if (!isnan(replayed)) {
            fprintf(out, "; replayed under %s: %.1f MB (%+.1f %%)", program->allocator, replayed / 1e6,
                    100 * (replayed / program->heap_peak_bytes - 1));
        }
        fprintf(out, "\n");
    }
    double malloc_ns = served >= 0 ? c->allocators[served].time_ns.median : NAN;
    if (isnan(malloc_ns) || isnan(program->cpu_ns)) return;
    int fastest = least(c, time_estimate);
    double saved_ns = malloc_ns - c->allocators[fastest].time_ns.median;
    fprintf(out, "what malloc is worth: %s takes %.1f %% of the recorded program's %.2f s of CPU", program->allocator,
            100 * malloc_ns / program->cpu_ns, program->cpu_ns / 1e9);
    if (fastest != served) {
        fprintf(out, "; %s would save about %.1f %%", c->options->choices.list[fastest].name,
                100 * saved_ns / program->cpu_ns);
    }
    fprintf(out, "\n");
}

static void print_harness(FILE *out, const struct ht_comparison *c) {
    fprintf(out, "harness (null allocator):");
    if (!isnan(c->harness_ns)) {
        fprintf(out, " %.4f s, %.1f ns per call, taken off every time", c->harness_ns / 1e9,
                c->built->calls_total ? c->harness_ns / (double)c->built->calls_total : 0);
    }
    if (!isnan(c->null_rss_bytes)) {
        fprintf(out, "%s %.2f MB, taken off every RSS", isnan(c->harness_ns) ? "" : ";", c->null_rss_bytes / 1e6);
    }
    fprintf(out, "\n");
}

// The shape of `ltrace -c`, most expensive first.
static void print_functions(FILE *out, const struct ht_comparison *c, size_t allocator) {
    const struct ht_function_figures *functions = c->allocators[allocator].functions;
    double sum = 0, touch = 0;
    bool printed[HT_FUNCTIONS] = {false};
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        if (!isnan(functions[i].time_ns)) sum += functions[i].time_ns;
        if (!isnan(functions[i].touch_ns)) touch += functions[i].touch_ns;
    }
    fprintf(out, "\n%s\n%% time     seconds  ns/call       calls  function\n", c->options->choices.list[allocator].name);
    for (;;) {
        int next = -1;
        for (int i = 0; i < HT_FUNCTIONS; i++) {
            if (printed[i] || !functions[i].count) continue;
            if (next < 0 || functions[i].time_ns > functions[next].time_ns || isnan(functions[next].time_ns)) next = i;
        }
        if (next < 0) break;
        printed[next] = true;
        const struct ht_function_figures *f = &functions[next];
        char share[CELL_BYTES], seconds[CELL_BYTES], each[CELL_BYTES];
        fprintf(out, "%6s %11s %8s %11" PRIu64 "  %s\n", number_text(f->time_ns, (sum + touch) / 100, "%.2f", share),
                number_text(f->time_ns, 1e9, "%.6f", seconds), number_text(f->time_ns, (double)f->count, "%.1f", each),
                f->count, ht_functions[next].name);
    }
    if (sum + touch > 0) {
        fprintf(out, "%6.2f %11.6f                       (first touch of what they returned)\n",
                100 * touch / (sum + touch), touch / 1e9);
    }
}

void ht_comparison_print(FILE *out, const struct ht_comparison *c) {
    print_heading(out, c);
    if (c->options->time_pass && c->count) print_time(out, c);
    if (c->options->memory_pass && c->count) print_memory(out, c);
    print_best(out, c);
    print_recorded(out, c);
    print_harness(out, c);
    if (!c->options->verbose || !c->options->time_pass) return;
    for (size_t i = 0; i < c->count; i++) print_functions(out, c, i);
    fprintf(out, "\nsplit by %" PRIu64 " timed calls per run; the clock's own %.1f ns are taken off each reading\n",
            c->timed_calls, c->clock_cost_ns);
    if (c->built->form->streams > 1) {
        for (size_t i = 0; i < c->count; i++) {
            char waited[CELL_BYTES];
            fprintf(out, "%s: threads waited for each other %s in all, not counted above\n",
                    c->options->choices.list[i].name, seconds_text(c->allocators[i].wait_ns, waited));
        }
    }
}
