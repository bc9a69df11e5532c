// SPDX-License-Identifier: Apache-2.0
#include "results_line.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "json_values.h"
#include "limit_report.h"
#include "print.h"
#include "replay_warnings.h"
#include "talk.h"

// The upper bound of a size class; that of the last is 2^64.
static json_t *bound(unsigned class) {
    return class < 63 ? json_integer((json_int_t)1 << class) : json_real(ldexp(1, (int)class));
}

static json_t *percentiles_json(const struct ht_histogram *histogram) {
    struct ht_percentiles p = ht_percentiles_of(histogram);
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)p.count, "p50", p.p50_ns, "p90",
                     p.p90_ns, "p99", p.p99_ns, "p999", p.p999_ns, "max", p.max_ns);
}

static json_t *by_function_json(const struct ht_latencies *latencies) {
    json_t *made = json_object();
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        if (!latencies->functions[i].total) continue;
        json_object_set_new(made, ht_functions[i].name, percentiles_json(&latencies->functions[i]));
    }
    return made;
}

static json_t *by_size_json(const struct ht_latencies *latencies) {
    json_t *made = json_array();
    for (int kind = HT_KIND_ALLOC; kind < HT_KINDS; kind++) {
        for (unsigned i = 0; i < HT_SIZE_CLASSES; i++) {
            if (!latencies->sizes[kind][i].total) continue;
            json_t *row = percentiles_json(&latencies->sizes[kind][i]);
            json_object_set_new(row, "kind", json_string(ht_latency_kind_names[kind]));
            json_object_set_new(row, "to_bytes", bound(i));
            json_array_append_new(made, row);
        }
    }
    return made;
}

static void add_latencies(json_t *to, const struct ht_latencies *latencies) {
    bool any = latencies && latencies->taken;
    json_object_set_new(to, "latency_ns", any ? by_function_json(latencies) : json_null());
    json_object_set_new(to, "latency_by_size_ns", any ? by_size_json(latencies) : json_null());
    json_set_figure(to, "latency_floor_ns", any ? latencies->floor_ns : NAN);
}

// Null as a whole where nothing was run; a counter that was not permitted is null in it.
static json_t *perf_json(const struct ht_counter_figures *counters) {
    bool processor = false;
    json_t *made = json_object();
    for (int i = 0; i < HT_PERF_EVENTS; i++) {
        json_set_whole(made, ht_perf_names[i], counters->perf[i]);
        if (i < HT_PERF_CONTEXT_SWITCHES && !isnan(counters->perf[i])) processor = true;
    }
    json_set_text(made, "scope", !processor ? NULL : counters->user_only ? "user" : "user and kernel");
    json_set_text(made, "missing", counters->refusal ? ht_perf_refusal_text(counters->refusal) : NULL);
    return made;
}

static void add_counters(json_t *to, const struct ht_counter_figures *counters) {
    json_object_set_new(to, "perf", counters ? perf_json(counters) : json_null());
    json_set_whole(to, "voluntary_switches", counters ? counters->voluntary_switches : NAN);
    json_set_whole(to, "involuntary_switches", counters ? counters->involuntary_switches : NAN);
}

static void add_leftovers(json_t *to, const struct ht_leftover_figures *left) {
    json_set_whole(to, "rss_after_free_bytes", left ? left->rss_after_free_bytes : NAN);
    json_set_whole(to, "rss_after_purge_bytes", left ? left->rss_after_purge_bytes : NAN);
    json_set_whole(to, "lazyfree_bytes", left ? left->lazyfree_bytes : NAN);
    json_set_whole(to, "lazyfree_peak_bytes", left ? left->lazyfree_peak_bytes : NAN);
    json_set_whole(to, "anon_huge_bytes", left ? left->anon_huge_bytes : NAN);
    json_set_whole(to, "anon_huge_peak_bytes", left ? left->anon_huge_peak_bytes : NAN);
    json_set_whole(to, "swap_bytes", left ? left->swap_bytes : NAN);
    json_set_whole(to, "swap_peak_bytes", left ? left->swap_peak_bytes : NAN);
}

static json_t *percent(double part, double whole) {
    return whole > 0 ? json_figure(100 * part / whole) : json_null();
}

static json_t *part_json(const struct ht_decomposition_part *part) {
    const struct {
        const char *name;
        double bytes;
    } parts[] = {{"requested", part->requested_bytes},
                 {"internal", part->internal_bytes},
                 {"untouched", part->untouched_bytes},
                 {"other", part->other_bytes},
                 {"lazyfree", part->lazyfree_bytes}};
    json_t *made = json_pack("{s:o}", "rss_bytes", json_whole(part->rss_bytes)), *percents = json_object();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s_bytes", parts[i].name);
        json_set_whole(made, key, parts[i].bytes);
        json_object_set_new(percents, parts[i].name, percent(parts[i].bytes, part->rss_bytes));
    }
    json_object_set_new(made, "percent", percents);
    return made;
}

static void add_decomposition(json_t *to, const struct ht_decomposition *of) {
    json_t *made = json_null();
    if (of && !isnan(of->peak.rss_bytes)) {
        made = json_pack("{s:o, s:o, s:o, s:o}", "peak", part_json(&of->peak), "end", part_json(&of->end),
                         "after_free_bytes", json_whole(of->after_free_bytes), "after_purge_bytes",
                         json_whole(of->after_purge_bytes));
        json_set_whole(json_object_get(made, "peak"), "in_call_bytes", of->peak.in_call_bytes);
    }
    json_object_set_new(to, "decomposition", made);
}

static void add_syscalls(json_t *to, const struct ht_choice_figures *of) {
    json_t *made = of && of->syscalls_counted ? json_object() : NULL;
    for (int i = 0; made && i < HT_SYSCALLS; i++) {
        json_t *row = json_pack("{s:I}", "calls", (json_int_t)of->syscalls.calls[i]);
        if (i != HT_SYSCALL_BRK) json_set_count(row, "bytes", of->syscalls.bytes[i]);
        json_object_set_new(made, ht_syscall_names[i], row);
    }
    json_object_set_new(to, "syscalls", made ? made : json_null());
    json_set_text(to, "syscalls_missing", of ? ht_syscalls_missing(of) : NULL);
}

static json_t *slop_by_size_json(const struct ht_child_figures *child) {
    json_t *made = json_array();
    for (unsigned i = 0; i < HT_SIZE_CLASSES; i++) {
        const struct ht_size_account *class = &child->at_peak[i];
        if (!class->blocks) continue;
        json_array_append_new(made, json_pack("{s:o, s:I, s:I, s:I}", "to_bytes", bound(i), "blocks",
                                              (json_int_t) class->blocks, "requested_bytes",
                                              (json_int_t) class->requested_bytes, "usable_bytes",
                                              (json_int_t) class->usable_bytes));
    }
    return made;
}

static json_t *report_json(const struct ht_child_figures *child, const struct ht_report_row *row) {
    json_t *made = json_pack("{s:I, s:o}", "live_bytes", (json_int_t)row->live_bytes, "usable_bytes",
                             json_count(child->knows_usable ? row->usable_bytes : HT_FIGURE_UNKNOWN));
    for (uint32_t i = 0; i < child->report_values; i++) {
        json_set_count(made, child->report_names[i], row->values[i]);
    }
    return made;
}

static json_t *stats_json(const struct ht_accounting_figures *accounting) {
    const struct ht_report_row *peak = ht_report_at_peak(accounting);
    if (!accounting->child->report_values) return json_null();
    return json_pack("{s:o, s:o}", "peak", peak ? report_json(accounting->child, peak) : json_null(), "end",
                     report_json(accounting->child, &accounting->child->report_end));
}

static void add_accounting(json_t *to, const struct ht_choice_figures *of) {
    const struct ht_accounting_figures *accounting = of && of->accounting.child ? &of->accounting : NULL;
    bool usable = accounting && accounting->child->knows_usable;
    json_set_whole(to, "slop_bytes", usable ? accounting->slop_peak_bytes : NAN);
    json_set_whole(to, "slop_mean_bytes", usable ? accounting->slop_mean_bytes : NAN);
    json_set_whole(to, "slop_end_bytes", usable ? accounting->slop_end_bytes : NAN);
    json_object_set_new(to, "slop_by_size", usable ? slop_by_size_json(accounting->child) : json_null());
    json_object_set_new(to, "allocator_stats", accounting ? stats_json(accounting) : json_null());
}

// Into a line of results. What was not measured in that run is null.
static void figures_json_add(json_t *run, const struct ht_run_result *line) {
    json_set_figure(run, "harness_share", line->time ? ht_harness_share(line->time) : NAN);
    add_latencies(run, line->latencies);
    add_counters(run, line->counters);
    add_leftovers(run, line->leftovers);
    add_decomposition(run, line->decomposition);
    add_syscalls(run, line->of_choice);
    add_accounting(run, line->memory ? line->of_choice : NULL);
    const char *purge =
        line->memory_figures && line->memory_figures->purged ? line->memory_figures->purge_call : NULL;
    json_set_text(run, "purge_call", purge);
}

static void append(json_t *curves, const char *name, json_t *value) {
    json_t *curve = json_object_get(curves, name);
    if (!curve) json_object_set_new(curves, name, curve = json_array());
    json_array_append_new(curve, value);
}

static void append_place(json_t *curves, const struct ht_built_form *built, uint64_t sample) {
    append(curves, "time_ns", json_count(built->points[sample].time_ns));
    append(curves, "event", json_count(built->points[sample].event));
}

static json_t *reports_json(const struct ht_run_result *line) {
    const struct ht_child_figures *child = line->of_choice ? line->of_choice->accounting.child : NULL;
    if (!child || !child->reports) return json_null();
    json_t *curves = json_object();
    for (uint32_t i = 0; i < child->reports; i++) {
        append_place(curves, line->built, child->report[i].sample);
        append(curves, "live_bytes", json_count(child->report[i].live_bytes));
        for (uint32_t k = 0; k < child->report_values; k++) {
            append(curves, child->report_names[k], json_count(child->report[i].values[k]));
        }
    }
    return curves;
}

static json_t *residency_json(const struct ht_run_result *line) {
    const struct ht_child_figures *child = line->memory_figures;
    if (!child || !child->residencies) return json_null();
    json_t *curves = json_object();
    for (uint32_t i = 0; i < child->residencies; i++) {
        const struct ht_kernel_view *row = &child->residency[i];
        append_place(curves, line->built, row->sample);
        append(curves, "lazyfree_bytes", json_count(row->lazyfree_bytes));
        append(curves, "anon_huge_bytes", json_count(row->anon_huge_bytes));
        append(curves, "swap_bytes", json_count(row->swap_bytes));
    }
    return curves;
}

// Into its timeline: the allocator's reports and the kernel's figures, each with a time axis of its own.
static void figures_json_curves(json_t *timeline, const struct ht_run_result *line) {
    json_object_set_new(timeline, "allocator", reports_json(line));
    json_object_set_new(timeline, "kernel", residency_json(line));
}

json_t *ht_figures_json_choice(const struct ht_choice_figures *of) {
    json_t *made = json_object();
    add_latencies(made, &of->latencies);
    json_set_count(made, "latencies_dropped", of->latencies.dropped);
    add_syscalls(made, of);
    add_accounting(made, of);
    return made;
}

static struct ht_control_call call_of(const struct ht_control_count *count) {
    return (struct ht_control_call){.number = count->number, .first = count->first, .second = count->second};
}

// What is advised the kernel does, whoever serves.
static bool obeys(const struct ht_choice *choice, const struct ht_control_count *count) {
    const struct ht_control_call call = call_of(count);
    if (count->number == HT_CTL_MADVISE) return true;
    return choice->kind && ht_control_changes(&call) &&
           ht_fits_any(choice->kind->obeys, ht_control_symbol(call.number));
}

json_t *ht_controls_json(const struct ht_control_counts *counts, const struct ht_choices *choices) {
    json_t *list = json_array();
    for (unsigned i = 0; i < HT_CONTROL_COUNTS && counts->count[i].calls; i++) {
        const struct ht_control_call call = call_of(&counts->count[i]);
        char name[HT_CONTROL_TEXT_BYTES];
        json_t *who = json_array();
        for (size_t k = 0; k < choices->count; k++)
            if (obeys(&choices->list[k], &counts->count[i]))
                json_array_append_new(who, json_text(choices->list[k].name));
        json_array_append_new(list, json_pack("{s:o, s:I, s:b, s:b, s:o}", "name",
                                              json_text(ht_control_name(&call, name)), "calls",
                                              (json_int_t)counts->count[i].calls, "changes",
                                              (int)ht_control_changes(&call), "is_kernels",
                                              (int)(call.number == HT_CTL_MADVISE), "obeyed_by", who));
    }
    return list;
}

// The same for one allocator: by name, how often, and whether it obeys.
static json_t *run_controls_json(const struct ht_control_counts *counts, const struct ht_choice *choice) {
    json_t *calls = json_object();
    for (unsigned i = 0; i < HT_CONTROL_COUNTS && counts->count[i].calls; i++) {
        const struct ht_control_call call = call_of(&counts->count[i]);
        char name[HT_CONTROL_TEXT_BYTES];
        json_object_set_new(calls, ht_control_name(&call, name),
                            json_pack("{s:I, s:b}", "calls", (json_int_t)counts->count[i].calls, "obeyed",
                                      (int)obeys(choice, &counts->count[i])));
    }
    return calls;
}

enum { RESULTS_SCHEMA = 1 };

static json_t *extended_json(const struct ht_extended_part *extended) {
    if (!extended || !extended->words[0]) return json_null();
    json_t *part = json_object();
    json_set_number(part, "from_ns", extended->from_ns);
    json_set_number(part, "until_ns", extended->until_ns);
    json_set_number(part, "to_ns", extended->to_ns);
    json_object_set_new(part, "grows", extended->knows_growth ? json_boolean(extended->grows) : json_null());
    json_set_whole(part, "live_to_bytes", extended->live_to_bytes);
    json_set_figure(part, "live_slope_bytes_per_hour", extended->live_slope_bytes_per_hour);
    return part;
}

static json_t *trace_json(const struct ht_run_result *line) {
    const struct ht_built_form *built = line->built;
    uint32_t copies = line->plan->scale;  // it is one of these that the file holds
    char *absolute = realpath(line->plan->trace_path, NULL);
    json_t *trace = json_pack(
        "{s:o, s:s, s:I, s:I}", "path", json_known_text(absolute ? absolute : line->plan->trace_path),
        "sha256", line->trace_sha256, "events",
        (json_int_t)((built->calls_total + built->failed_skipped + built->foreign_skipped) / copies),
        "inherited_objects", (json_int_t)(built->inherited_objects / copies));
    free(absolute);
    json_set_known_text(trace, "inner_allocators", line->program->inside);
    const char *prelude = line->program->prelude;
    json_object_set_new(trace, "prelude", prelude ? json_string(prelude) : json_null());
    json_object_set_new(trace, "forked", json_boolean(line->program->forked));
    json_object_set_new(trace, "recorded_allocator",
                        json_pack("{s:o, s:o, s:b}", "name", json_known_text(line->program->allocator),
                                  "version", json_known_text(line->program->allocator_version), "linked",
                                  line->program->linked));
    const struct ht_heap_share *share = &line->program->share;
    json_set_whole(trace, "rss_peak_bytes", share->anon_bytes ? (double)share->anon_bytes : NAN);
    json_set_whole(trace, "explained_bytes", share->anon_bytes ? (double)share->explained_bytes : NAN);
    bool is_known = share->anon_bytes && isnan(line->program->heap_high_bytes);
    json_set_whole(trace, "own_bytes", is_known ? (double)share->own_bytes : NAN);
    json_set_whole(trace, "heap_low_bytes", line->program->heap_low_bytes);
    json_set_whole(trace, "heap_high_bytes", line->program->heap_high_bytes);
    json_set_whole(trace, "touched_bytes", (double)built->touched_peak_bytes / copies);
    json_set_whole(trace, "zeroed_bytes", (double)built->zeroed_peak_bytes / copies);
    json_set_whole(trace, "unmeasured_bytes", (double)built->unmeasured_peak_bytes / copies);
    json_object_set_new(trace, "extended", extended_json(&line->program->extended));
    return trace;
}

// Knobs in force, as the allocator reports them; requested ones that it cannot report, and such settings of the recorded
// program.
static json_t *knobs_json(const struct ht_choice *choice) {
    json_t *knobs = json_object();
    const struct ht_knob *table = choice->kind ? choice->kind->knobs : NULL;
    for (size_t i = 0; table && table[i].name; i++) {
        if (choice->reported[i].state != HT_KNOB_REPORTED) continue;
        json_set_known_text(knobs, table[i].name, choice->reported[i].value);
    }
    for (size_t i = 0; i < choice->knobs.count; i++) {
        const char *name = choice->knobs.list[i].knob->name;
        if (json_object_get(knobs, name)) continue;
        json_set_known_text(knobs, name, choice->knobs.list[i].value);
    }
    for (size_t i = 0; i < choice->knobs.settings_count; i++) {
        const struct ht_setting *setting = &choice->knobs.settings[i];
        if (setting->state == HT_SETTING_TAKEN && !json_object_get(knobs, setting->name))
            json_set_known_text(knobs, setting->name, setting->value);
    }
    return knobs;
}

json_t *ht_environment_json(const struct ht_choice *choice) {
    static struct ht_knob_variables variables;
    json_t *list = json_array();
    if (choice->kind && choice->kind->environment) {
        json_array_append_new(list, json_known_text(choice->kind->environment));
    }
    ht_knob_variables_make(&choice->knobs, true, &variables);
    for (size_t i = 0; i < variables.count; i++) {
        json_array_append_new(list, json_known_text(variables.list[i]));
    }
    return list;
}

json_t *ht_settings_json(const struct ht_choice *choice) {
    json_t *settings = json_object();
    for (size_t i = 0; i < choice->knobs.settings_count; i++) {
        const struct ht_setting *setting = &choice->knobs.settings[i];
        if (setting->state == HT_SETTING_TAKEN) json_set_known_text(settings, setting->name, setting->value);
    }
    return settings;
}

json_t *ht_left_out_json(const struct ht_choice *choice) {
    json_t *list = json_array();
    for (size_t i = 0; i < choice->knobs.settings_count; i++) {
        const struct ht_setting *setting = &choice->knobs.settings[i];
        char text[HT_SETTINGS_TEXT_BYTES];
        if (setting->state == HT_SETTING_LEFT_OUT)
            json_array_append_new(list,
                                  json_known_text(ht_settings_text(setting, 1, HT_SETTING_LEFT_OUT, text)));
    }
    return list;
}

static json_t *allocator_json(const struct ht_choice *choice) {
    const struct ht_allocator *kind = choice->kind;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     json_known_text(choice->name), "path", json_known_text(choice->path), "version",
                     json_known_text(choice->version), "build_id", json_known_text(choice->build_id), "knobs",
                     knobs_json(choice), "kind", json_known_text(kind ? kind->name : ""), "environment",
                     ht_environment_json(choice), "debian", json_known_text(ht_package_of_choice(choice)),
                     "settings", ht_settings_json(choice), "left_out", ht_left_out_json(choice));
}

// load: NaN where it was not read.
static json_t *machine_json(const struct ht_machine *machine, double load) {
    json_t *made = json_pack("{s:o, s:i, s:o, s:o, s:o, s:o}", "cpu", json_known_text(machine->cpu), "cores",
                             machine->cores, "kernel", json_known_text(machine->kernel), "libc",
                             json_known_text(machine->libc), "thp", json_known_text(machine->thp), "load",
                             json_figure(load));
    json_set_known_text(made, "governor", machine->governor);
    json_object_set_new(made, "turbo", machine->turbo < 0 ? json_null() : json_boolean(machine->turbo));
    return made;
}

static json_t *calls_json(const struct ht_run_result *line) {
    json_t *calls = json_object();
    for (int i = 0; i < HT_FUNCTIONS; i++) {
        if (!line->built->calls[i]) continue;
        const struct ht_function_figures *of = line->time ? &line->time->functions[i] : NULL;
        json_object_set_new(calls, ht_functions[i].name,
                            json_pack("{s:I, s:o, s:o}", "count", (json_int_t)line->built->calls[i],
                                      "time_ns", json_whole(of ? of->time_ns : NAN), "touch_ns",
                                      json_whole(of ? of->touch_ns : NAN)));
    }
    return calls;
}

struct curve {
    json_t *time, *event, *live, *rss, *high;
    json_t *slop, *own;  // NULL where the allocator does not report it, or the trace does not know it
    const int64_t *slop_bytes;
};

// first: of the points since the one that was put before. At the peak, which may lie within a call, the curve is as high as that.
static void put_point(struct curve *curve, const struct ht_run_result *line, size_t first, size_t i) {
    const struct ht_sample_point *point = &line->built->points[i];
    const struct ht_memory_figures *memory = line->memory;
    uint64_t high = memory->high_bytes[i], rss = i == memory->peak_sample ? high : memory->rss_bytes[i];
    for (size_t k = first; k < i; k++) high = memory->high_bytes[k] > high ? memory->high_bytes[k] : high;
    json_array_append_new(curve->time, json_integer((json_int_t)point->time_ns));
    json_array_append_new(curve->event, json_integer((json_int_t)point->event));
    json_array_append_new(curve->live, json_integer((json_int_t)point->live_bytes));
    json_array_append_new(curve->rss, json_integer((json_int_t)rss));
    json_array_append_new(curve->high, json_integer((json_int_t)high));
    if (curve->own) json_array_append_new(curve->own, json_integer((json_int_t)line->own_bytes[i]));
    if (curve->slop) json_array_append_new(curve->slop, json_integer((json_int_t)curve->slop_bytes[i]));
}

// The curve with at most --points points: of each stretch the point where RSS is highest, so that
// no peak is lost, and the very last.
static json_t *timeline_json(const struct ht_run_result *line) {
    const struct ht_memory_figures *memory = line->memory;
    const struct ht_choice_figures *figures = line->of_choice;
    const int64_t *slops = figures ? figures->accounting.slop_bytes : NULL;
    struct curve curve = {
        .time = json_array(),
        .event = json_array(),
        .live = json_array(),
        .rss = json_array(),
        .high = json_array(),
        .slop = slops && figures->accounting.child->knows_usable ? json_array() : NULL,
        .slop_bytes = slops,
        .own = line->own_bytes ? json_array() : NULL,
    };
    size_t stretch = memory->count / (line->plan->points - 1) + 1, put = 0;
    for (size_t first = 0; first < memory->count; first += stretch) {
        size_t end = first + stretch < memory->count ? first + stretch : memory->count, chosen = first;
        for (size_t i = first; i < end; i++) {
            if (memory->rss_bytes[i] > memory->rss_bytes[chosen]) chosen = i;
        }
        if (memory->peak_sample >= first && memory->peak_sample < end) chosen = memory->peak_sample;
        put_point(&curve, line, put, chosen);
        put = chosen + 1;
        if (end == memory->count && chosen != end - 1) put_point(&curve, line, put, end - 1);
    }
    json_t *timeline = json_pack("{s:o, s:o, s:o, s:o, s:o}", "time_ns", curve.time, "event", curve.event,
                                 "live_bytes", curve.live, "rss_bytes", curve.rss, "high_bytes", curve.high);
    json_object_set_new(timeline, "slop_bytes", curve.slop ? curve.slop : json_null());
    json_object_set_new(timeline, "own_rss_bytes", curve.own ? curve.own : json_null());
    figures_json_curves(timeline, line);
    return timeline;
}

static json_t *fragmentation_json(const struct ht_memory_figures *memory) {
    if (!memory) return json_null();
    return json_pack("{s:o, s:o, s:o, s:o}", "f1", json_figure(memory->fragmentation[0]), "f2",
                     json_figure(memory->fragmentation[1]), "f3", json_figure(memory->fragmentation[2]), "f4",
                     json_figure(memory->fragmentation[3]));
}

static void add_figures(json_t *run, const struct ht_run_result *line, bool with_curves) {
    const struct ht_time_figures *time = line->time;
    const struct ht_memory_figures *memory = line->memory;
    bool timed = time && !isnan(time->clock_cost_ns);  // not every round has a timed pass
    json_set_whole(run, "alloc_time_ns", time ? time->alloc_time_ns : NAN);
    json_set_whole(run, "harness_time_ns", time ? time->harness_time_ns : NAN);
    json_set_whole(run, "touch_time_ns", time ? time->touch_time_ns : NAN);
    json_set_figure(run, "ns_per_call", time ? time->ns_per_call : NAN);
    json_set_figure(run, "clock_cost_ns", time ? time->clock_cost_ns : NAN);
    json_set_count(run, "timed_calls", timed ? time->timed_calls : HT_FIGURE_UNKNOWN);
    json_set_count(run, "timed_calls_dropped", timed ? time->timed_calls_dropped : HT_FIGURE_UNKNOWN);
    json_set_whole(run, "wait_time_ns", time ? time->wait_time_ns : memory ? memory->wait_time_ns : NAN);
    json_set_whole(run, "wall_ns", time ? time->wall_ns : memory ? memory->wall_ns : NAN);
    json_set_whole(run, "rss_peak_bytes", memory ? memory->rss_peak_bytes : NAN);
    json_set_whole(run, "rss_between_calls_peak_bytes", memory ? memory->rss_between_calls_peak_bytes : NAN);
    json_object_set_new(run, "watched", memory ? json_boolean(memory->watched) : json_null());
    json_set_whole(run, "rss_mean_bytes", memory ? memory->rss_mean_bytes : NAN);
    json_set_whole(run, "rss_start_bytes", memory ? memory->rss_start_bytes : NAN);
    json_set_whole(run, "rss_end_bytes", memory ? memory->rss_end_bytes : NAN);
    json_set_whole(run, "process_rss_peak_bytes", memory ? memory->process_rss_peak_bytes : NAN);
    json_set_whole(run, "process_rss_end_bytes", memory ? memory->process_rss_end_bytes : NAN);
    json_set_number(run, "live_peak_bytes", line->built->live_peak_bytes);
    json_object_set_new(run, "fragmentation", fragmentation_json(memory));
    json_object_set_new(run, "timeline", memory && with_curves ? timeline_json(line) : json_null());
    json_object_set_new(run, "baseline_check",
                        line->check ? ht_baseline_json(line->check, line->program, line->built,
                                                       line->choice->version, line->thp)
                                    : json_null());
    bool measured = time || memory;
    const struct ht_outcome *outcome = line->outcome;
    json_set_count(run, "background_threads", measured ? outcome->background_threads : HT_FIGURE_UNKNOWN);
    json_set_count(run, "background_cpu_ns",
                   measured && outcome->background_threads ? outcome->background_cpu_ns : HT_FIGURE_UNKNOWN);
    const char *reader = *outcome->cycle_counter_reader ? outcome->cycle_counter_reader : "none";
    json_set_known_text(run, "cycle_counter_reader",
                        measured && outcome->cycle_counter_watched ? reader : NULL);
    json_set_count(run, "minor_faults", measured ? outcome->minor_faults : HT_FIGURE_UNKNOWN);
    json_set_count(run, "major_faults", measured ? outcome->major_faults : HT_FIGURE_UNKNOWN);
}

static json_t *started_json(uint64_t realtime_ns) {
    char text[64];
    time_t seconds = (time_t)(realtime_ns / 1000000000u);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    size_t used = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + used, sizeof text - used, ".%03uZ", (unsigned)(realtime_ns / 1000000u % 1000u));
    return json_string(text);
}

json_t *ht_results_head(const struct ht_plan *plan, const struct ht_choice *choice, json_t *trace,
                        const char *pass, uint32_t round, uint64_t seed, const char *pace) {
    return json_pack("{s:i, s:s, s:o, s:o, s:s, s:I, s:I, s:s, s:s, s:s}", "schema", RESULTS_SCHEMA,
                     "heaptape", HEAPTAPE_VERSION, "trace", trace, "allocator", allocator_json(choice),
                     "pass", pass, "round", (json_int_t)round, "seed", (json_int_t)seed, "threads",
                     plan->one_thread ? "1" : "trace", "touch", ht_touch_names[plan->touch], "pace", pace);
}

void ht_results_machine(json_t *run, const struct ht_machine *machine, uint64_t started_realtime_ns) {
    json_object_set_new(run, "machine", machine_json(machine, NAN));
    json_object_set_new(run, "started_at", started_json(started_realtime_ns));
}

json_t *ht_results_line(const struct ht_run_result *line, bool with_curves) {
    const struct ht_plan *plan = line->plan;
    const char *pass = line->verified      ? "verify"
                       : line->counts      ? "count"
                       : line->limit       ? "limit"
                       : line->memory_pass ? "memory"
                                           : "time";
    const char *pace = line->memory_pass ? plan->paces.memory.name : plan->paces.time.name;
    json_t *run = ht_results_head(plan, line->choice, trace_json(line), pass, line->round, plan->seed, pace);
    json_object_set_new(run, "control", json_boolean(line->control));
    json_object_set_new(run, "cpu", line->cpu < 0 ? json_null() : json_integer(line->cpu));
    json_set_number(run, "layout", line->layout);
    json_object_set_new(run, "addresses", json_string(line->fixed_addresses ? "fixed" : "drawn"));
    json_set_number(run, "repeats", line->repeats);
    json_set_whole(run, "instructions", line->instructions);
    json_set_number(run, "scale", plan->scale);
    json_object_set_new(run, "age_occupancy", json_real(plan->age_occupancy));
    json_object_set_new(run, "age_multiple", json_real(plan->age_multiple));
    json_set_number(run, "aged_blocks", plan->aging.blocks);
    json_set_number(run, "aged_kept_blocks", plan->aging.kept);
    json_set_number(run, "aged_kept_bytes", plan->aging.kept_bytes);
    json_object_set_new(run, "processors", plan->processors ? json_integer(plan->processors) : json_null());
    bool asked_known = plan->processors && line->arenas;
    json_object_set_new(run, "processors_asked",
                        asked_known ? json_boolean(line->processors_asked) : json_null());
    json_set_whole(run, "arenas", line->arenas ? line->arenas->used : NAN);
    json_set_whole(run, "arenas_max", line->arenas ? line->arenas->most : NAN);
    json_set_number(run, "replay_threads", line->built->form->streams * line->built->side_by_side);
    json_set_text(run, "wrap", plan->wrap);
    json_object_set_new(run, "touch_free", json_string(ht_touch_free_names[plan->touch_free]));
    json_set_number(run, "pollution_bytes", plan->pollution.data_bytes);
    json_set_number(run, "pollution_code_bytes", plan->pollution.code_bytes);
    json_set_number(run, "pollution_pages", plan->pollution.pages);
    json_set_number(run, "purge_ns", plan->purge_ns);
    json_set_known_text(run, "thp", line->thp);
    json_object_set_new(run, "streamed", json_boolean(line->built->form->streamed));
    json_object_set_new(run, "calls", calls_json(line));
    json_object_set_new(run, "control_calls", run_controls_json(&line->built->controls, line->choice));
    add_figures(run, line, with_curves);
    figures_json_add(run, line);
    json_object_set(run, "counts", line->counts ? (json_t *)line->counts : json_null());
    json_object_set_new(run, "limit", ht_limit_json(line->limit, line->limit_by));
    ht_verify_json_add(run, line->verified);
    // A run that did not come to its end failed at least once.
    uint64_t failures = line->outcome->failures ? line->outcome->failures : line->problem ? 1 : 0;
    json_set_number(run, "failures", failures);
    json_set_number(run, "refused_calls", line->choice->refused_calls);
    json_set_text(run, "problem", line->problem);
    ht_known_faults_add(run, line->choice, line->outcome->known_failures);
    json_object_set_new(run, "machine", machine_json(line->machine, line->load));
    json_object_set_new(run, "started_at", started_json(line->started_realtime_ns));
    return run;
}

// A pipe or a device has nothing to check.
static const char *check_output(int fd) {
    struct stat status;
    char first = 0, last = 0;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size == 0) return NULL;
    if (pread(fd, &first, 1, 0) != 1 || pread(fd, &last, 1, status.st_size - 1) != 1) return strerror(errno);
    if (first != '{') return "expected lines of JSON, found something else";
    // The line that a crash or a full disk cut off stays a line of its own.
    return last == '\n' || write(fd, "\n", 1) == 1 ? NULL : strerror(errno);
}

int ht_results_open(const char *path, struct ht_error *error) {
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return ht_error_system(error, path, "results cannot be appended");
    const char *problem = check_output(fd);
    if (!problem) return fd;
    close(fd);
    errno = 0;
    return ht_error_system(error, path, "results cannot be appended: %s", problem);
}

// Takes back the part of a line that was all there was room for, unless another replay has appended since.
static void take_back(int fd, ssize_t written) {
    struct stat status;
    off_t end = lseek(fd, 0, SEEK_CUR);
    if (written <= 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size != end) return;
    if (ftruncate(fd, end - written)) {
    }  // then a reader finds a line that ends early
}

int ht_results_line_write(int fd, const json_t *run) {
    char *text = json_dumps(run, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!text) {
        errno = ENOMEM;
        return -1;
    }
    size_t bytes = strlen(text);
    text[bytes++] = '\n';  // over the terminating zero
    ssize_t written = write(fd, text, bytes);
    free(text);
    if (written == (ssize_t)bytes) return 0;
    int reason = written < 0 ? errno : ENOSPC;
    take_back(fd, written);
    errno = reason;
    return -1;
}
