// SPDX-License-Identifier: Apache-2.0
#include "figures_json.h"

#include <math.h>
#include <stdio.h>

#include "json_values.h"

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

void ht_figures_json_add(json_t *run, const struct ht_run_result *line) {
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

void ht_figures_json_curves(json_t *timeline, const struct ht_run_result *line) {
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
