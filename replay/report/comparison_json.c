// SPDX-License-Identifier: Apache-2.0
#include "comparison_json.h"

#include <jansson.h>
#include <math.h>

#include "against.h"
#include "control_report.h"
#include "earlier_report.h"
#include "fail_if.h"
#include "figures_json.h"
#include "json_values.h"
#include "limit_report.h"
#include "results_line.h"

static json_t *verdict_json(enum ht_verdict verdict, const struct ht_figure_words *words) {
    switch (verdict) {
    case HT_VERDICT_LESS: return json_string(words->less);
    case HT_VERDICT_MORE: return json_string(words->more);
    case HT_VERDICT_SAME: return json_string("same");
    case HT_VERDICT_UNRESOLVED: return json_string("unresolved");
    default: return json_null();
    }
}

static json_t *estimate_json(const struct ht_allocator_estimates *estimates, enum ht_figure which) {
    const struct ht_estimate *estimate = ht_estimate_of(estimates, which);
    json_t *outliers = json_array();
    for (size_t i = 0; i < estimate->outliers_count; i++) {
        json_array_append_new(outliers, json_integer((json_int_t)estimate->outliers[i]));
    }
    json_t *made =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "median", json_figure(estimate->median), "minimum",
                  json_figure(estimate->minimum), "ratio", json_figure(estimate->ratio.estimate), "ci_low",
                  json_figure(estimate->ratio.low), "ci_high", json_figure(estimate->ratio.high), "pairs",
                  (json_int_t)estimate->ratio.count);
    json_set_figure(made, "verdict_low", estimate->widened.low);
    json_set_figure(made, "verdict_high", estimate->widened.high);
    json_object_set_new(made, "verdict", verdict_json(estimate->verdict, &ht_figure_words[which]));
    json_set_whole(made, "more_rounds", estimate->more_rounds);
    json_object_set_new(made, "outliers", outliers);
    return made;
}

static json_t *control_json(const struct ht_comparison *c) {
    if (!c->controlled) return json_null();
    json_t *control = json_pack("{s:o}", "allocator", json_text(c->plan->choices.list[c->baseline].name));
    for (int i = 0; i < HT_FIGURES; i++) {
        const struct ht_interval *ratio = &c->controls[i];
        json_object_set_new(control, ht_figure_words[i].key,
                            json_pack("{s:o, s:o, s:o, s:I}", "ratio", json_figure(ratio->estimate), "ci_low",
                                      json_figure(ratio->low), "ci_high", json_figure(ratio->high), "pairs",
                                      (json_int_t)ratio->count));
    }
    return control;
}

static json_t *warnings_json(const struct ht_warnings *warnings) {
    json_t *list = json_array();
    for (size_t i = 0; i < warnings->count; i++) {
        const struct ht_warning *warning = &warnings->list[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:s}", "kind", ht_warning_names[warning->kind], "message",
                                        json_text(warning->message), "remedy", warning->remedy));
    }
    return list;
}

json_t *ht_fail_if_json(const struct ht_comparison *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < c->plan->conditions.count; i++) {
        const struct ht_condition *condition = &c->plan->conditions.list[i];
        json_t *met = json_array(), *undecided = json_array();
        for (size_t k = 0; k < c->count; k++) {
            struct ht_against found = ht_against(c, condition, k);
            enum ht_condition_state state = ht_fail_if_state(condition, &found.widened);
            if (!ht_is_compared(c, k) || state == HT_CONDITION_REFUTED) continue;
            json_array_append_new(state == HT_CONDITION_HOLDS ? met : undecided,
                                  json_text(c->plan->choices.list[k].name));
        }
        const char *outcome = json_array_size(met)         ? "holds"
                              : json_array_size(undecided) ? "undecided"
                                                           : "refuted";
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "condition", condition->text, "outcome",
                                              outcome, "met_by", met, "undecided", undecided));
    }
    return list;
}

static void add_failing_runs(json_t *allocator, const struct ht_failing_runs *failing) {
    json_set_number(allocator, "failed_runs", failing->failed);
    json_object_set_new(allocator, "given_up", json_boolean(ht_failing_runs_given_up(failing)));
    json_set_text(allocator, "problem", failing->failed ? failing->problem : NULL);
}

static json_t *allocator_json(const struct ht_comparison *c, size_t i) {
    const struct ht_choice *choice = &c->plan->choices.list[i];
    const struct ht_allocator_estimates *e = &c->allocators[i];
    json_t *made = json_pack("{s:o, s:o, s:o, s:s, s:b}", "name", json_text(choice->name), "version",
                             json_text(choice->version), "path", json_text(choice->path), "build_id",
                             choice->build_id, "baseline", (int)(i == c->baseline));
    json_object_set_new(made, "settings", ht_settings_json(choice));
    json_set_number(made, "time_runs", e->time_runs);
    json_set_number(made, "memory_runs", e->memory_runs);
    add_failing_runs(made, &c->failing[i]);
    json_object_set_new(made, "limit", ht_limit_json(c->limits ? &c->limits[i] : NULL, c->limit_by));
    json_object_set_new(made, "alloc_time_ns", estimate_json(e, HT_FIGURE_TIME));
    json_object_set_new(made, "rss_peak_bytes", estimate_json(e, HT_FIGURE_PEAK));
    json_set_figure(made, "rss_between_calls_peak_bytes", e->rss_between_calls_peak);
    json_object_set_new(made, "watched", e->memory_runs ? json_boolean(!e->unwatched) : json_null());
    json_object_set_new(made, "rss_mean_bytes", estimate_json(e, HT_FIGURE_MEAN));
    json_object_set_new(made, "rss_end_bytes", estimate_json(e, HT_FIGURE_END));
    json_object_set_new(made, "process_rss_peak_bytes", estimate_json(e, HT_FIGURE_PROCESS));
    json_set_figure(made, "of_recorded_peak", ht_comparison_of_recorded(c, i));
    json_set_figure(made, "ns_per_call", e->ns_per_call);
    json_set_figure(made, "instructions", c->instructions[i]);
    json_set_figure(made, "faults", e->faults);
    json_set_figure(made, "wait_time_ns", e->wait_ns);
    json_object_set_new(made, "fragmentation",
                        json_pack("{s:o, s:o, s:o, s:o}", "f1", json_figure(e->fragmentation[0]), "f2",
                                  json_figure(e->fragmentation[1]), "f3", json_figure(e->fragmentation[2]),
                                  "f4", json_figure(e->fragmentation[3])));
    json_t *calls = json_object();
    for (int f = 0; f < HT_FUNCTIONS; f++) {
        if (!e->functions[f].count) continue;
        json_object_set_new(calls, ht_functions[f].name,
                            json_pack("{s:I, s:o, s:o}", "count", (json_int_t)e->functions[f].count,
                                      "time_ns", json_figure(e->functions[f].time_ns), "touch_ns",
                                      json_figure(e->functions[f].touch_ns)));
    }
    json_object_set_new(made, "calls", calls);
    ht_figures_json_compare(made, c, i);
    return made;
}

static json_t *recorded_json(const struct ht_comparison *c) {
    const struct ht_heap_share *share = &c->program->share;
    int served = ht_comparison_recorded(c);
    double malloc_ns = served >= 0 ? c->allocators[served].time_ns.median : NAN;
    return json_pack(
        "{s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "command",
        json_text(c->program->command), "forked", c->program->forked, "linked", c->program->linked,
        "allocator", json_text(c->program->allocator), "allocator_version",
        json_text(c->program->allocator_version), "rss_peak_bytes", json_figure(c->program->rss_peak_bytes),
        "heap_peak_bytes", json_figure(c->program->heap_peak_bytes), "heap_low_bytes",
        json_figure(c->program->heap_low_bytes), "heap_high_bytes", json_figure(c->program->heap_high_bytes),
        "explained_bytes", json_count(share->anon_bytes ? share->explained_bytes : UINT64_MAX), "cpu_ns",
        json_figure(c->program->cpu_ns), "malloc_share", json_figure(malloc_ns / c->program->cpu_ns));
}

json_t *ht_comparison_check_json(const struct ht_comparison *c) {
    int served = ht_comparison_recorded(c);
    const char *version = served >= 0 ? c->plan->choices.list[served].version : NULL;
    return ht_baseline_json(&c->check, c->program, c->built, version, c->thp);
}

int ht_comparison_print_json(FILE *out, const struct ht_comparison *c) {
    const struct ht_choices *choices = &c->plan->choices;
    json_t *root = json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "trace", json_text(c->plan->trace_path),
                             "calls", (json_int_t)c->built->calls_total, "inherited_objects",
                             (json_int_t)c->built->inherited_objects, "rounds", (json_int_t)c->rounds, "seed",
                             (json_int_t)c->plan->seed, "failed_runs", (json_int_t)c->failed_runs);
    json_set_number(root, "scale", c->plan->scale);
    json_object_set_new(root, "processors",
                        c->plan->processors ? json_integer(c->plan->processors) : json_null());
    json_set_text(root, "baseline", c->count ? choices->list[c->baseline].name : NULL);
    json_set_known_text(root, "thp", c->thp);
    json_set_number(root, "repeats", c->repeats);
    json_object_set_new(root, "control", control_json(c));
    json_object_set_new(root, "warnings", warnings_json(c->warnings));
    json_object_set_new(root, "fail_if", ht_fail_if_json(c));
    if (c->earlier) json_object_set_new(root, "against_file", ht_earlier_json(c));
    json_object_set_new(root, "harness",
                        json_pack("{s:o, s:o, s:o}", "time_ns", json_figure(c->harness_ns), "rss_bytes",
                                  json_figure(c->null_rss_bytes), "clock_cost_ns",
                                  json_figure(c->clock_cost_ns)));
    json_object_set_new(root, "recorded", recorded_json(c));
    json_object_set_new(root, "control_calls", ht_controls_json(c));
    json_set_known_text(root, "extrapolated", c->program->extended.words);
    json_object_set_new(root, "baseline_check", ht_comparison_check_json(c));
    json_t *allocators = json_array();
    for (size_t i = 0; i < c->count; i++) json_array_append_new(allocators, allocator_json(c, i));
    json_object_set_new(root, "allocators", allocators);
    int failed = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(root);
    return failed || fputc('\n', out) == EOF || fflush(out) ? -1 : 0;
}
