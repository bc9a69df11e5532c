// SPDX-License-Identifier: Apache-2.0
#include "comparison_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "comparison_json.h"
#include "control_report.h"
#include "earlier_report.h"
#include "figures_text.h"
#include "print.h"
#include "standing.h"
#include "talk.h"
#include "text_table.h"

_Static_assert(HT_CHOICES_MAX + 1 <= HT_TABLE_ROWS_MAX, "a table has a row for each allocator");

enum { CELL_BYTES = 64, COMMAND_BYTES = 60 };

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

// One unit for a whole column, so that its numbers can be compared by eye.
struct time_unit {
    double ns;
    const char *format;
};

static struct time_unit time_unit_for(double largest_ns) {
    if (largest_ns >= 1e9) return (struct time_unit){1e9, "%.2f s"};
    return largest_ns >= 1e6 ? (struct time_unit){1e6, "%.1f ms"} : (struct time_unit){1e3, "%.1f us"};
}

static const char *time_text(double ns, char *text) {
    struct time_unit unit = time_unit_for(fabs(ns));
    return number_text(ns, unit.ns, unit.format, text);
}

static const char *count_text(double count, char *text) {
    if (isnan(count)) return number_text(count, 1, "%.0f", text);
    return ht_grouped(text, (uint64_t)llround(count));
}

// The control's ratio in one of the passes, which says how far a difference of nothing goes.
static void print_control(FILE *out, const struct ht_comparison *c) {
    char time[CELL_BYTES], peak[CELL_BYTES];
    const struct ht_interval *of_time = &c->controls[HT_FIGURE_TIME], *of_peak = &c->controls[HT_FIGURE_PEAK];
    if (!c->controlled) return;
    ht_print(out, "A/A control (%s again): ", c->plan->choices.list[c->baseline].name);
    if (c->plan->time_pass) ht_print(out, "time %s", ratio_text(of_time, false, time));
    if (c->plan->time_pass && c->plan->memory_pass) ht_print(out, ", ");
    if (c->plan->memory_pass) ht_print(out, "peak RSS %s", ratio_text(of_peak, false, peak));
    ht_print(out, "\n");
}

static void print_heading(FILE *out, const struct ht_comparison *c) {
    const struct ht_recorded_program *program = c->program;
    const char *slash = strrchr(c->plan->trace_path, '/');
    char calls[HT_NUMBER_OF_BYTES], rounds[HT_NUMBER_OF_BYTES];
    size_t shown = strlen(program->command), whole = shown;
    if (shown > COMMAND_BYTES) shown = COMMAND_BYTES;
    // Not inside of a UTF-8 character.
    while (shown < whole && shown > 0 && (program->command[shown] & 0xc0) == 0x80) shown--;
    ht_print(out, "%s", slash ? slash + 1 : c->plan->trace_path);
    if (program->command[0]) {
        ht_print(out, "  %.*s%s", (int)shown, program->command, shown < whole ? "..." : "");
    }
    if (program->allocator[0]) {
        ht_print(out, ", recorded under %s%s%s", program->allocator, program->allocator_version[0] ? " " : "",
                 program->allocator_version);
    }
    fputc('\n', out);
    if (program->extended.words[0]) ht_print(out, "%s\n", program->extended.words);
    if (c->plan->scale > 1) ht_print(out, "%u copies side by side, together ", c->plan->scale);
    ht_print(out, "%s, %s, seed %" PRIu64, ht_number_of(calls, c->built->calls_total, "call"),
             ht_number_of(rounds, c->rounds, "round"), c->plan->seed);
    if (c->built->inherited_objects) {
        ht_print(out, "; %s inherited%s", ht_number_of(calls, c->built->inherited_objects, "block"),
                 c->built->before ? ", after a replay of all calls before" : "");
    }
    if (c->plan->aging.blocks)
        ht_print(out, "; on a used heap: %s, of which %.3g %% stay",
                 ht_number_of(calls, c->plan->aging.blocks, "block"), 100 * c->plan->age_occupancy);
    if (c->repeats > 1) ht_print(out, "; time is the mean of %" PRIu32 " repeats in each run", c->repeats);
    fputc('\n', out);
    print_control(out, c);
}

static const char *verdict_text(const struct ht_allocator_estimates *estimates, enum ht_figure figure,
                                char *text) {
    const struct ht_estimate *estimate = ht_estimate_of(estimates, figure);
    char more[CELL_BYTES];
    switch (estimate->verdict) {
    case HT_VERDICT_LESS: return ht_figure_words[figure].less;
    case HT_VERDICT_MORE: return ht_figure_words[figure].more;
    case HT_VERDICT_SAME: return "same within 1 %";
    case HT_VERDICT_UNRESOLVED: break;
    default: return "";
    }
    if (isnan(estimate->more_rounds)) return "unresolved (one round is not enough)";
    snprintf(text, CELL_BYTES, "unresolved (%s)", ht_more_rounds_text(estimate->more_rounds, more));
    return text;
}

// Both tables begin with who it is and are compared with the same one.
struct row_names {
    char allocator[HT_TABLE_CELL_BYTES], versus[HT_TABLE_CELL_BYTES];
};

static struct row_names names_of(const struct ht_comparison *c, size_t i) {
    const struct ht_choice *list = c->plan->choices.list;
    struct row_names names;
    char shown[sizeof list->name + HT_SETTINGS_TEXT_BYTES];
    snprintf(names.allocator, sizeof names.allocator, "%.240s %.30s", ht_choice_shown(&list[i], shown),
             list[i].version);
    snprintf(names.versus, sizeof names.versus, "vs %s", list[c->baseline].name);
    return names;
}

static void print_time(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table table;
    struct row_names names = names_of(c, c->baseline);
    double largest_ns = 0;
    for (size_t i = 0; i < c->count; i++) largest_ns = fmax(largest_ns, c->allocators[i].time_ns.median);
    struct time_unit unit = time_unit_for(largest_ns);
    ht_table_begin(
        &table, "lrrrlrl",
        (const char *[]){"allocator", "time", "min", "per call", names.versus, "page faults", "verdict"});
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_allocator_estimates *e = &c->allocators[i];
        char time[CELL_BYTES], least[CELL_BYTES], each[CELL_BYTES], ratio[CELL_BYTES], faults[CELL_BYTES];
        char verdict[CELL_BYTES];
        names = names_of(c, i);
        ht_table_add(&table, (const char *[]){
                                 names.allocator, number_text(e->time_ns.median, unit.ns, unit.format, time),
                                 number_text(e->time_ns.minimum, unit.ns, unit.format, least),
                                 number_text(e->ns_per_call, 1, "%.1f ns", each),
                                 ratio_text(&e->time_ns.ratio, i == c->baseline, ratio),
                                 count_text(e->faults, faults), verdict_text(e, HT_FIGURE_TIME, verdict)});
    }
    fputc('\n', out);
    ht_table_print(out, &table);
}

static const char *counted_text(const json_t *counts, const char *part, const char *key,
                                char text[CELL_BYTES]) {
    const json_t *value = json_object_get(json_object_get(counts, part), key);
    return value ? count_text((double)json_integer_value(value), text) : "n/a";
}

static void print_instructions(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table table;
    struct row_names names = names_of(c, c->baseline);
    ht_table_begin(&table, "lrrrrr",
                   (const char *[]){"allocator", "instructions", "per call", names.versus, "mapping calls",
                                    "the replay's own"});
    for (size_t i = 0; i < c->count; i++) {
        char count[CELL_BYTES], each[CELL_BYTES], ratio[CELL_BYTES], calls[CELL_BYTES], own[CELL_BYTES];
        const json_t *counts = json_object_get(c->counts, c->plan->choices.list[i].name);
        double mine = c->instructions[i];
        names = names_of(c, i);
        ht_table_add(&table, (const char *[]){names.allocator, isnan(mine) ? "n/a" : count_text(mine, count),
                                              number_text(mine, (double)c->built->calls_total, "%.1f", each),
                                              number_text(mine, c->instructions[c->baseline], "%.4f", ratio),
                                              counted_text(counts, "allocator", "mapping_calls", calls),
                                              counted_text(counts, "program", "instructions", own)});
    }
    fputc('\n', out);
    ht_table_print(out, &table);
}

// Whether the trace knows what the program held beside its heap.
static bool knows_process(const struct ht_comparison *c) {
    for (size_t i = 0; i < c->count; i++)
        if (!isnan(c->allocators[i].process_rss_peak.median)) return true;
    return false;
}

static void print_within_calls(FILE *out, const struct ht_comparison *c) {
    bool begun = false;
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_allocator_estimates *e = &c->allocators[i];
        if (!ht_peak_within_call(e)) continue;
        ht_print(
            out, "%s %s %.1f MB",
            begun ? ","
                  : "peak RSS within a call, as of a realloc that copies; at readings between calls at most:",
            c->plan->choices.list[i].name, e->rss_between_calls_peak / 1e6);
        begun = true;
    }
    if (begun) fputc('\n', out);
}

static void print_memory(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table table;
    struct row_names names = names_of(c, c->baseline);
    ht_table_begin(&table, "lrlrrrrl",
                   (const char *[]){"allocator", "peak RSS", names.versus, "mean RSS", "RSS at end",
                                    "peak RSS/live", "process", "verdict"});
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_allocator_estimates *e = &c->allocators[i];
        char peak[CELL_BYTES], ratio[CELL_BYTES], mean[CELL_BYTES], end[CELL_BYTES], f4[CELL_BYTES];
        char process[CELL_BYTES], verdict[CELL_BYTES];
        names = names_of(c, i);
        ht_table_add(&table,
                     (const char *[]){names.allocator, number_text(e->rss_peak.median, 1e6, "%.1f MB", peak),
                                      ratio_text(&e->rss_peak.ratio, i == c->baseline, ratio),
                                      number_text(e->rss_mean.median, 1e6, "%.1f MB", mean),
                                      number_text(e->rss_end.median, 1e6, "%.1f MB", end),
                                      number_text(e->fragmentation[3], 1, "%.2f", f4),
                                      number_text(e->process_rss_peak.median, 1e6, "%.1f MB", process),
                                      verdict_text(e, HT_FIGURE_PEAK, verdict)});
    }
    fputc('\n', out);
    ht_table_print(out, &table);
    print_within_calls(out, c);
    if (knows_process(c))
        ht_print(
            out,
            "process: peak RSS with what the program held itself at each moment (%.1f MB at most), without file "
            "pages\n",
            (double)c->program->share.own_bytes / 1e6);
}

// The words for who leads by a figure.
struct lead_words {
    enum ht_figure figure;
    const char *title, *better;
};

static void print_tied(FILE *out, const struct ht_comparison *c, const struct ht_standing *standing) {
    const char *between = "";
    for (size_t i = 0; i < c->count; i++) {
        if (!standing->tied[i]) continue;
        ht_print(out, "%s%s", between, c->plan->choices.list[i].name);
        between = ", ";
    }
}

static bool has_rival(const struct ht_comparison *c, enum ht_figure figure) {
    for (size_t i = 0; i < c->count; i++) {
        if (i != c->baseline && !isnan(ht_estimate_of(&c->allocators[i], figure)->median)) return true;
    }
    return false;
}

static void print_lead(FILE *out, const struct ht_comparison *c, const struct lead_words *words,
                       const struct ht_standing *standing) {
    const struct ht_choice *list = c->plan->choices.list;
    const char *base = list[c->baseline].name;
    ht_print(out, "%s: ", words->title);
    if ((size_t)standing->leader == c->baseline) {
        if (!standing->tied_count) ht_print(out, "%s.", base);
        else {
            ht_print(out, "none is clearly %s than %s (no clear difference: ", words->better, base);
            print_tied(out, c, standing);
            fputs(").", out);
        }
        return;
    }
    const struct ht_interval *ratio = &ht_estimate_of(&c->allocators[standing->leader], words->figure)->ratio;
    ht_print(out, "%s, ", list[standing->leader].name);
    if (words->figure == HT_FIGURE_TIME) {
        ht_print(out, "%.2fx [%.2f, %.2f] the speed of %s", 1 / ratio->estimate, 1 / ratio->high,
                 1 / ratio->low, base);
    } else {
        ht_print(out, "%.2fx that of %s", ratio->estimate, base);
    }
    if (standing->tied_count) {
        fputs("; no clear difference from it: ", out);
        print_tied(out, c, standing);
    }
    fputc('.', out);
}

static void print_best(FILE *out, const struct ht_comparison *c,
                       const struct ht_standing standings[HT_FIGURES]) {
    static const struct lead_words words[] = {{HT_FIGURE_TIME, "fastest", "faster"},
                                              {HT_FIGURE_PEAK, "smallest peak", "smaller"}};
    const char *between = ht_heap_share_is_small(&c->program->share) ? "of malloc's part alone: " : "";
    bool any = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const struct ht_standing *standing = &standings[words[i].figure];
        if (standing->leader < 0 || !has_rival(c, words[i].figure)) continue;
        if (words[i].figure == HT_FIGURE_PEAK && ht_baseline_differs(&c->check)) continue;
        fputs(between, out);
        print_lead(out, c, &words[i], standing);
        between = "  ";
        any = true;
    }
    if (any && c->program->forked) fputs("  (one of several processes; shared pages are not counted)", out);
    if (any) fputc('\n', out);
}

static void print_recorded(FILE *out, const struct ht_comparison *c, const struct ht_standing *of_time) {
    const struct ht_recorded_program *program = c->program;
    int served = ht_comparison_recorded(c);
    if (c->plan->memory_pass && !program->has_samples)
        ht_print(out, "recorded program: its memory is not in the trace: no replay is held against it\n");
    if (c->plan->memory_pass && !isnan(program->rss_peak_bytes)) {
        // The recorder too looks between calls.
        double replayed = served >= 0 ? c->allocators[served].rss_between_calls_peak : NAN;
        ht_print(out, "recorded program: %.1f MB peak RssAnon", program->rss_peak_bytes / 1e6);
        bool unseen = ht_heap_share_is_small(&program->share);
        double heap = unseen ? (double)program->share.explained_bytes : program->heap_peak_bytes;
        if (!isnan(heap)) ht_print(out, ", %.1f MB of it in the heap", heap / 1e6);
        else if (!isnan(program->heap_high_bytes))
            ht_print(
                out,
                ", how much of it in the heap is unknown (%.1f to %.1f MB): no replay is held against it",
                program->heap_low_bytes / 1e6, program->heap_high_bytes / 1e6);
        if (!unseen && !isnan(replayed) && !isnan(program->heap_peak_bytes)) {
            ht_print(out, "; replayed under %s: %.1f MB (%+.1f %%)", program->allocator, replayed / 1e6,
                     100 * (replayed / program->heap_peak_bytes - 1));
        }
        ht_print(out, "\n");
    }
    double malloc_ns = served >= 0 ? c->allocators[served].time_ns.median : NAN;
    if (isnan(malloc_ns) || isnan(program->cpu_ns)) return;
    ht_print(out, "malloc's share: %s takes %.1f %% of the recorded program's %.2f s of CPU",
             program->allocator, 100 * malloc_ns / program->cpu_ns, program->cpu_ns / 1e9);
    struct ht_estimate lead = ht_standing_lead(c, HT_FIGURE_TIME, of_time, (size_t)served);
    if (lead.verdict == HT_VERDICT_LESS) {
        ht_print(out, "; %s would save about %.1f %%", c->plan->choices.list[of_time->leader].name,
                 100 * (1 - lead.ratio.estimate) * malloc_ns / program->cpu_ns);
    } else if (c->count > 1) {
        ht_print(out, "; no other allocator clearly saves any of it");
    }
    ht_print(out, "; where blocks lie also changes the program's own time\n");
}

static void print_harness(FILE *out, const struct ht_comparison *c) {
    char time[CELL_BYTES];
    if (isnan(c->harness_ns) && isnan(c->null_rss_bytes)) return;
    ht_print(out, "harness (null allocator):");
    if (!isnan(c->harness_ns)) {
        ht_print(out, " %s, %.1f ns per call, subtracted from each time", time_text(c->harness_ns, time),
                 c->built->calls_total ? c->harness_ns / (double)c->built->calls_total : 0);
    }
    if (!isnan(c->null_rss_bytes)) {
        double kept_bytes = (double)c->plan->aging.kept_bytes;
        ht_print(out, "%s %.2f MB", isnan(c->harness_ns) ? "" : ";", (c->null_rss_bytes - kept_bytes) / 1e6);
        if (kept_bytes > 0) ht_print(out, " and %.2f MB of blocks that stay", kept_bytes / 1e6);
        ht_print(out, ", subtracted from each RSS");
    }
    ht_print(out, "\n");
}

// The most expensive function that is not printed yet, or -1.
static int next_function(const struct ht_function_figures *functions, const bool *printed) {
    int next = -1;
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        if (printed[i] || !functions[i].count) continue;
        if (next < 0 || functions[i].time_ns > functions[next].time_ns || isnan(functions[next].time_ns)) {
            next = i;
        }
    }
    return next;
}

// The shape of `ltrace -c`, most expensive first.
static void print_functions(FILE *out, const struct ht_comparison *c, size_t allocator) {
    static struct ht_text_table table;
    const struct ht_function_figures *functions = c->allocators[allocator].functions;
    char share[CELL_BYTES], seconds[CELL_BYTES], each[CELL_BYTES], calls[CELL_BYTES];
    double sum = 0, touch = 0;
    bool printed[HT_FUNCTIONS] = {false};
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        if (!isnan(functions[i].time_ns)) sum += functions[i].time_ns;
        if (!isnan(functions[i].touch_ns)) touch += functions[i].touch_ns;
    }
    ht_table_begin(&table, "rrrrl", (const char *[]){"% time", "seconds", "ns/call", "calls", "function"});
    for (int next; (next = next_function(functions, printed)) >= 0; printed[next] = true) {
        const struct ht_function_figures *f = &functions[next];
        ht_table_add(&table, (const char *[]){number_text(f->time_ns, (sum + touch) / 100, "%.2f", share),
                                              number_text(f->time_ns, 1e9, "%.6f", seconds),
                                              number_text(f->time_ns, (double)f->count, "%.1f", each),
                                              ht_grouped(calls, f->count), ht_functions[next].name});
    }
    if (sum + touch > 0) {
        ht_table_add(&table, (const char *[]){number_text(touch, (sum + touch) / 100, "%.2f", share),
                                              number_text(touch, 1e9, "%.6f", seconds), "", "",
                                              "(first touch of the returned blocks)"});
    }
    ht_print(out, "\n%s\n", c->plan->choices.list[allocator].name);
    ht_table_print(out, &table);
}

static void print_outliers(FILE *out, const struct ht_comparison *c) {
    for (size_t i = 0; i < c->count; i++) {
        for (int figure = 0; figure < HT_FIGURES; figure++) {
            const struct ht_estimate *e = ht_estimate_of(&c->allocators[i], (enum ht_figure)figure);
            if (!e->outliers_count) continue;
            ht_print(out, "outliers, kept: %s of %s in round%s", ht_figure_words[figure].name,
                     c->plan->choices.list[i].name, e->outliers_count == 1 ? "" : "s");
            for (size_t k = 0; k < e->outliers_count; k++) {
                ht_print(out, "%s%" PRIu32, k ? ", " : " ", e->outliers[k] + 1);
            }
            ht_print(out, "\n");
        }
    }
}

static void print_details(FILE *out, const struct ht_comparison *c) {
    char timed[HT_NUMBER_OF_BYTES], waited[CELL_BYTES];
    for (size_t i = 0; i < c->count; i++) print_functions(out, c, i);
    ht_print(out,
             "\nsplit by about %s per run; the clock's own %.1f ns are subtracted from each "
             "reading\n",
             ht_number_of(timed, c->timed_calls, "timed call"), c->clock_cost_ns);
    for (size_t i = 0; i < c->count && (uint64_t)c->built->form->streams * c->built->side_by_side > 1; i++) {
        ht_print(out, "%s: threads waited %s for each other, not counted above\n",
                 c->plan->choices.list[i].name, time_text(c->allocators[i].wait_ns, waited));
    }
}

static void print_caution(FILE *out, const struct ht_comparison *c) {
    char words[HT_HEAP_SHARE_TEXT_BYTES];
    if (ht_heap_share_is_small(&c->program->share))
        ht_print(out, "caution: %s\n", ht_heap_share_words(words, &c->program->share));
    json_t *check = ht_comparison_check_json(c);
    const char *differs = json_string_value(json_object_get(check, "words"));
    if (differs) ht_print(out, "caution: %s\n", differs);
    json_decref(check);
}

// Before all figures, too: what they are not held against.
static void print_own_allocator(FILE *out, const struct ht_comparison *c) {
    const struct ht_recorded_program *program = c->program;
    if (!c->plan->memory_pass || !c->count || !ht_comparison_is_of_own(c)) return;
    ht_print(out, "the program's own %s%s%s is part of it and not replayed: it held %.1f MB at its peak",
             program->allocator, program->allocator_version[0] ? " " : "", program->allocator_version,
             program->rss_peak_bytes / 1e6);
    for (size_t i = 0; i < c->count; i++) {
        double ratio = ht_comparison_of_recorded(c, i);
        if (!isnan(ratio))
            ht_print(out, "%s %.2f under %s", i ? "," : "; of that the process would hold", ratio,
                     c->plan->choices.list[i].name);
    }
    ht_print(out, "; no figure of time is held against it\n");
}

// Before all figures: whose are not of this program.
static void print_refusals(FILE *out, const struct ht_comparison *c) {
    for (size_t i = 0; i < c->count; i++) {
        const struct ht_choice *choice = &c->plan->choices.list[i];
        if (choice->refused_calls)
            ht_print(out, "%s %s: no figure of it would be of this program, and it is not replayed\n",
                     choice->name, choice->refusal);
    }
}

// What is missing of this allocator's figures, and why. Nothing if nothing is.
static void print_missing(FILE *out, const struct ht_failing_runs *failing, const struct ht_choice *choice) {
    char runs[HT_NUMBER_OF_BYTES];
    const char *name = choice->name;
    if (!failing->failed || choice->refused_calls) return;
    ht_print(out, "missing: %s failed in %u of %s%s; the last: %s\n", name, failing->failed,
             ht_number_of(runs, failing->runs, "run"),
             ht_failing_runs_given_up(failing) ? ", then no more were made" : "", failing->problem);
}

void ht_comparison_print(FILE *out, const struct ht_comparison *c) {
    print_caution(out, c);
    print_own_allocator(out, c);
    print_refusals(out, c);
    print_heading(out, c);
    if (c->plan->time_pass && c->count) print_time(out, c);
    if (c->plan->instructions && c->count) print_instructions(out, c);
    if (c->plan->memory_pass && c->count) print_memory(out, c);
    if (c->plan->processors && c->plan->memory_pass && c->count) ht_processors_print(out, c);
    if (c->earlier && c->count) ht_earlier_print(out, c);
    fputc('\n', out);
    for (size_t i = 0; i < c->count; i++) {
        print_missing(out, &c->failing[i], &c->plan->choices.list[i]);
    }
    struct ht_standing standings[HT_FIGURES];
    for (int i = 0; i < HT_FIGURES; i++) standings[i] = ht_standing_of(c, (enum ht_figure)i);
    print_best(out, c, standings);
    print_recorded(out, c, &standings[HT_FIGURE_TIME]);
    ht_controls_print(out, c);
    print_harness(out, c);
    ht_harness_share_print(out, c);
    if (c->count) ht_huge_pages_print(out, c);
    if (c->plan->verbose && c->plan->time_pass) print_details(out, c);
    if (c->plan->verbose && c->count) ht_figures_print(out, c);
    if (c->plan->verbose) print_outliers(out, c);
}
