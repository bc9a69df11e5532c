#include "comparison_json.h"

#include <jansson.h>
#include <math.h>

#include "fail_if.h"
#include "figures_json.h"

static json_t *figure(double value) { return isnan(value) ? json_null() : json_real(value); }

// Names, paths and command lines need not be UTF-8, JSON's texts must: null then, as in the results.
static json_t *text(const char *text) {
    json_t *made = json_string(text);
    return made ? made : json_null();
}

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
    json_t *made = json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "median", figure(estimate->median), "minimum",
                             figure(estimate->minimum), "ratio", figure(estimate->ratio.estimate), "ci_low",
                             figure(estimate->ratio.low), "ci_high", figure(estimate->ratio.high), "pairs",
                             (json_int_t)estimate->ratio.count);
    json_object_set_new(made, "verdict_low", figure(estimate->widened.low));
    json_object_set_new(made, "verdict_high", figure(estimate->widened.high));
    json_object_set_new(made, "verdict", verdict_json(estimate->verdict, &ht_figure_words[which]));
    json_object_set_new(made, "more_rounds",
                        isnan(estimate->more_rounds) ? json_null()
                                                     : json_integer((json_int_t)estimate->more_rounds));
    json_object_set_new(made, "outliers", outliers);
    return made;
}

static json_t *control_json(const struct ht_comparison *c) {
    if (!c->controlled) return json_null();
    json_t *control = json_pack("{s:o}", "allocator", text(c->plan->choices.list[c->baseline].name));
    for (int i = 0; i < HT_FIGURES; i++) {
        const struct ht_interval *ratio = &c->controls[i];
        json_object_set_new(control, ht_figure_words[i].key,
                            json_pack("{s:o, s:o, s:o, s:I}", "ratio", figure(ratio->estimate), "ci_low",
                                      figure(ratio->low), "ci_high", figure(ratio->high), "pairs",
                                      (json_int_t)ratio->count));
    }
    return control;
}

static json_t *warnings_json(const struct ht_warnings *warnings) {
    json_t *list = json_array();
    for (size_t i = 0; i < warnings->count; i++) {
        const struct ht_warning *warning = &warnings->list[i];
        json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "kind", ht_warning_names[warning->kind],
                                              "message", text(warning->message), "remedy", warning->remedy));
    }
    return list;
}

static json_t *fail_if_json(const struct ht_comparison *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < c->plan->conditions.count; i++) {
        const struct ht_condition *condition = &c->plan->conditions.list[i];
        json_t *met = json_array(), *undecided = json_array();
        for (size_t k = 0; k < c->count; k++) {
            const struct ht_estimate *e =
                ht_estimate_of(&c->allocators[k], (enum ht_figure)condition->figure);
            enum ht_condition_state state = ht_fail_if_state(condition, &e->widened);
            if (k == c->baseline || state == HT_CONDITION_REFUTED) continue;
            json_array_append_new(state == HT_CONDITION_HOLDS ? met : undecided,
                                  text(c->plan->choices.list[k].name));
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
    json_t *problem = failing->failed ? json_string(failing->problem) : NULL;
    json_object_set_new(allocator, "failed_runs", json_integer(failing->failed));
    json_object_set_new(allocator, "given_up", json_boolean(ht_failing_runs_given_up(failing)));
    json_object_set_new(allocator, "problem", problem ? problem : json_null());
}

static json_t *allocator_json(const struct ht_comparison *c, size_t i) {
    const struct ht_choice *choice = &c->plan->choices.list[i];
    const struct ht_allocator_estimates *e = &c->allocators[i];
    json_t *made = json_pack("{s:o, s:o, s:o, s:s, s:b}", "name", text(choice->name), "version",
                             text(choice->version), "path", text(choice->path), "build_id", choice->build_id,
                             "baseline", (int)(i == c->baseline));
    json_object_set_new(made, "time_runs", json_integer((json_int_t)e->time_runs));
    json_object_set_new(made, "memory_runs", json_integer((json_int_t)e->memory_runs));
    add_failing_runs(made, &c->failing[i]);
    json_object_set_new(made, "alloc_time_ns", estimate_json(e, HT_FIGURE_TIME));
    json_object_set_new(made, "rss_peak_bytes", estimate_json(e, HT_FIGURE_PEAK));
    json_object_set_new(made, "rss_mean_bytes", estimate_json(e, HT_FIGURE_MEAN));
    json_object_set_new(made, "rss_end_bytes", estimate_json(e, HT_FIGURE_END));
    json_object_set_new(made, "ns_per_call", figure(e->ns_per_call));
    json_object_set_new(made, "instructions", figure(c->instructions[i]));
    json_object_set_new(made, "faults", figure(e->faults));
    json_object_set_new(made, "wait_time_ns", figure(e->wait_ns));
    json_object_set_new(made, "fragmentation",
                        json_pack("{s:o, s:o, s:o, s:o}", "f1", figure(e->fragmentation[0]), "f2",
                                  figure(e->fragmentation[1]), "f3", figure(e->fragmentation[2]), "f4",
                                  figure(e->fragmentation[3])));
    json_t *calls = json_object();
    for (int f = 0; f < HT_FUNCTIONS; f++) {
        if (!e->functions[f].count) continue;
        json_object_set_new(calls, ht_functions[f].name,
                            json_pack("{s:I, s:o, s:o}", "count", (json_int_t)e->functions[f].count,
                                      "time_ns", figure(e->functions[f].time_ns), "touch_ns",
                                      figure(e->functions[f].touch_ns)));
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
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "command", text(c->program->command), "allocator",
        text(c->program->allocator), "allocator_version", text(c->program->allocator_version),
        "rss_peak_bytes", figure(c->program->rss_peak_bytes), "heap_peak_bytes",
        figure(c->program->heap_peak_bytes), "explained_bytes",
        share->anon_bytes ? json_integer((json_int_t)share->explained_bytes) : json_null(), "cpu_ns",
        figure(c->program->cpu_ns), "malloc_share", figure(malloc_ns / c->program->cpu_ns));
}

int ht_comparison_print_json(FILE *out, const struct ht_comparison *c) {
    const struct ht_choices *choices = &c->plan->choices;
    json_t *root = json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "trace", text(c->plan->trace_path), "calls",
                             (json_int_t)c->built->calls_total, "inherited_objects",
                             (json_int_t)c->built->inherited_objects, "rounds", (json_int_t)c->rounds, "seed",
                             (json_int_t)c->plan->seed, "failed_runs", (json_int_t)c->failed_runs);
    json_object_set_new(root, "scale", json_integer(c->plan->scale));
    json_object_set_new(root, "baseline", c->count ? text(choices->list[c->baseline].name) : json_null());
    json_object_set_new(root, "thp", *c->thp ? json_string(c->thp) : json_null());
    json_object_set_new(root, "repeats", json_integer(c->repeats));
    json_object_set_new(root, "control", control_json(c));
    json_object_set_new(root, "warnings", warnings_json(c->warnings));
    json_object_set_new(root, "fail_if", fail_if_json(c));
    json_object_set_new(root, "harness",
                        json_pack("{s:o, s:o, s:o}", "time_ns", figure(c->harness_ns), "rss_bytes",
                                  figure(c->null_rss_bytes), "clock_cost_ns", figure(c->clock_cost_ns)));
    json_object_set_new(root, "recorded", recorded_json(c));
    json_t *allocators = json_array();
    for (size_t i = 0; i < c->count; i++) json_array_append_new(allocators, allocator_json(c, i));
    json_object_set_new(root, "allocators", allocators);
    int failed = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(root);
    return failed || fputc('\n', out) == EOF || fflush(out) ? -1 : 0;
}
