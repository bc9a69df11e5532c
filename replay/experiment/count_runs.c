// SPDX-License-Identifier: Apache-2.0
#include "count_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "baseline_file.h"
#include "comparison_json.h"
#include "cost_table.h"
#include "counted_figure.h"
#include "earlier_report.h"
#include "experiment.h"
#include "fail_if_text.h"
#include "now.h"
#include "print.h"
#include "profile_text.h"
#include "program_time.h"
#include "results_line.h"
#include "simulated_counts.h"
#include "simulation.h"
#include "talk.h"
#include "text_table.h"

enum { PROBLEM_BYTES = 512 };

// With accesses, the program's own touch memory, not the replay.
static struct ht_job count_job(const struct ht_experiment *x) {
    struct ht_job job = ht_experiment_job(x, HT_PASS_FLAT);
    job.repeats = 1;
    job.by_turns = 1;
    if (x->plan->splice_path) {
        // What the C library allocates for a thread is in the trace already, as the program's.
        job.all_first = 1;
        job.touch = HT_TOUCH_NONE;
        job.touch_free = HT_TOUCH_FREE_NONE;
    }
    return job;
}

// What the one process of a run left, or NULL with a problem.
static json_t *counts_of(json_t *processes, const struct ht_plan *plan, char problem[PROBLEM_BYTES]) {
    json_t *counts = json_incref(json_array_get(processes, 0));
    const char *spliced = json_string_value(json_object_get(counts, "splice_problem"));
    json_decref(processes);
    if (!counts) {
        snprintf(problem, PROBLEM_BYTES, "the simulation left no counts");
    } else if (spliced) {
        snprintf(problem, PROBLEM_BYTES, "%s: %s", plan->splice_path, spliced);
    } else if (!json_integer_value(json_object_get(counts, "instructions"))) {
        snprintf(problem, PROBLEM_BYTES, "the simulation counted nothing: it did not find ht_engine_run");
    } else {
        return counts;
    }
    json_decref(counts);
    return NULL;
}

// Why it cannot be simulated, or NULL.
static const char *unsimulated(const struct ht_choice *choice) {
    const struct ht_fault *fault = choice->kind ? choice->kind->faults : NULL;
    while (fault && fault->help &&
           !(fault->unsimulated && ht_version_within(choice->version, fault->since, fault->last)))
        fault++;
    return fault ? fault->help : NULL;
}

// Addresses count: the padding of the environment is the same in each run.
static json_t *count_one(struct ht_experiment *x, const struct ht_choice *choice,
                         char problem[PROBLEM_BYTES]) {
    static struct ht_simulation_words words;
    struct ht_random same = {1};
    char *folder = ht_counts_folder(), *pattern = folder ? ht_counts_pattern(folder) : NULL;
    struct ht_simulation simulation = {.caches = !x->plan->instructions,
                                       .profile = x->plan->profile,
                                       .out = pattern,
                                       .within = "ht_engine_run",
                                       .splice = x->plan->splice_path};
    struct ht_job job = count_job(x);
    const char *why;
    if (!pattern) {
        snprintf(problem, PROBLEM_BYTES, "cannot create a temporary folder");
        return NULL;
    }
    bool done = ht_simulation_prepare(&words, &simulation, &why);
    if (!done) snprintf(problem, PROBLEM_BYTES, "%s", why);
    else ht_simulation_set_environment(&words);
    x->channel.simulation = &words;
    done = done && ht_child_run(&x->channel, choice, &job, -1, &same, problem, PROBLEM_BYTES);
    x->channel.simulation = NULL;
    json_t *processes = ht_counts_collect(folder, pattern);
    if (done) return counts_of(processes, x->plan, problem);
    json_decref(processes);
    return NULL;
}

static void print_part(const json_t *all, const char *title, const char *part) {
    static struct ht_text_table table;
    const char *name;
    json_t *counts;
    ht_counts_table_begin(&table, title);
    json_object_foreach((json_t *)all, name, counts) {
        if (strcmp(name, "null")) ht_counts_table_add(&table, name, json_object_get(counts, part));
    }
    ht_table_print(stdout, &table);
}

// What the time pass measures: calls and first touches, less the null replayer's.
static json_t *less_null(const json_t *counts, const json_t *null_counts) {
    static const char *const parts[] = {"allocator", "program"};
    json_t *made = json_object(), *value;
    const char *key;
    json_object_foreach(json_object_get(counts, "allocator"), key, value) {
        json_int_t sum = 0;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            sum += json_integer_value(json_object_get(json_object_get(counts, parts[i]), key)) -
                   json_integer_value(json_object_get(json_object_get(null_counts, parts[i]), key));
        json_object_set_new(made, key, json_integer(sum));
    }
    return made;
}

// "time" of each allocator, and what each of its parts takes by the model.
static void add_times(json_t *all, const struct ht_cost_model *model) {
    const json_t *null_counts = json_object_get(all, "null");
    const char *name;
    json_t *counts;
    json_object_foreach(all, name, counts) {
        if (null_counts) json_object_set_new(counts, "time", less_null(counts, null_counts));
        ht_add_modelled(model, json_object_get(counts, "allocator"));
        ht_add_modelled(model, json_object_get(counts, "program"));
        ht_add_modelled(model, json_object_get(counts, "time"));
    }
}

static void print_times(const json_t *all, const char *part, const struct ht_cost_model *model) {
    static struct ht_text_table table;
    const char *name;
    json_t *counts;
    ht_cost_table_begin(&table);
    json_object_foreach((json_t *)all, name, counts) {
        if (strcmp(name, "null")) ht_cost_table_add(&table, name, json_object_get(counts, part));
    }
    putchar('\n');
    ht_cost_table_print(stdout, &table, model);
    if (!strcmp(part, "time"))
        puts("modelled: the calls and the first touches of what they return, less the null replayer's");
}

static void print_program(const json_t *all, const char *baseline) {
    putchar('\n');
    print_part(all, "the program under", "program");
    putchar('\n');
    ht_program_time_print(stdout, all, baseline);
}

// What conditions go by, where nothing is measured in rounds.
static struct ht_comparison *counted_comparison(const struct ht_experiment *x) {
    static struct ht_comparison made;
    made = (struct ht_comparison){.plan = x->plan,
                                  .count = x->plan->choices.count,
                                  .baseline = x->baseline,
                                  .counts = x->counts,
                                  .earlier = x->earlier};
    return &made;
}

static void print_all(const struct ht_experiment *x, const char *baseline,
                      const struct ht_cost_model *model) {
    const struct ht_plan *plan = x->plan;
    json_t *all = x->counts;
    if (plan->json) {
        json_t *made = json_pack("{s:i, s:s*, s:b, s:o, s:O}", "schema", 1, "accesses", plan->splice_path,
                                 "calibrated", model->measured, "calibration",
                                 ht_calibration_json(&model->calibration), "counts", all);
        if (plan->conditions.count)
            json_object_set_new(made, "fail_if", ht_fail_if_json(counted_comparison(x)));
        if (x->earlier) json_object_set_new(made, "against_file", ht_earlier_json(counted_comparison(x)));
        json_dumpf(made, stdout, JSON_INDENT(1));
        putchar('\n');
        json_decref(made);
        return;
    }
    print_part(all, "in calls of", "allocator");
    print_times(all, plan->splice_path ? "allocator" : "time", model);
    if (plan->splice_path) print_program(all, baseline);
    ht_profile_print(stdout, all);
    if (x->earlier) ht_earlier_print(stdout, counted_comparison(x));
}

// A line of results for each allocator: its counts, and by which costs they became times.
static void keep_all(struct ht_experiment *x, const json_t *all, const struct ht_cost_model *model) {
    static const char *const kept[] = {"allocator",     "program",      "time",    "blocks",
                                       "calls_by_size", "program_time", "sampled", "profile"};
    static const struct ht_outcome nothing_measured;
    for (size_t i = 0; i < x->plan->choices.count; i++) {
        const struct ht_choice *choice = &x->plan->choices.list[i];
        json_t *counts = json_object_get(all, choice->name);
        if (!counts) continue;
        json_t *calibration = ht_calibration_json(&model->calibration);
        json_t *made = json_pack("{s:s?, s:b, s:O}", "accesses", x->plan->splice_path, "calibrated",
                                 model->measured, "costs", json_object_get(calibration, "costs"));
        for (size_t j = 0; j < sizeof kept / sizeof *kept; j++) {
            json_t *value = json_object_get(counts, kept[j]);
            json_object_set(made, kept[j], value ? value : json_null());
        }
        struct ht_run_result line = {.choice = choice,
                                     .outcome = &nothing_measured,
                                     .cpu = -1,
                                     .load = ht_machine_load(),
                                     .instructions = ht_counted_instructions(counts),
                                     .counts = made,
                                     .started_realtime_ns = ht_now_ns(CLOCK_REALTIME)};
        ht_experiment_keep(x, &line);
        json_decref(made);
        json_decref(calibration);
    }
}

static bool count_into(struct ht_experiment *x, const struct ht_choice *choice, json_t *all) {
    char problem[PROBLEM_BYTES] = "";
    if (!x->plan->quiet && ht_progress_due(&x->progress))
        ht_progress_draw(&x->progress, x->plan->count_pass ? "simulating: %s" : "counting instructions: %s",
                         choice->name);
    const char *why = unsimulated(choice);
    if (why) snprintf(problem, sizeof problem, "%s", why);
    json_t *counts = why ? NULL : count_one(x, choice, problem);
    if (ht_child_interrupted()) return false;
    if (counts) return !json_object_set_new(all, choice->name, counts);
    ht_progress_end(&x->progress);
    ht_print(stderr, "heaptape replay: %s: %s: %s\n", choice->name,
             x->plan->count_pass ? "--pass count" : "--instructions", problem);
    return false;
}

size_t ht_count_runs(struct ht_experiment *x, struct ht_cost_model *model) {
    const struct ht_choices *choices = &x->plan->choices;
    size_t failed = 0;
    x->counts = json_object();
    ht_progress_start(&x->progress);
    // Instructions are those in calls of the allocator, from which nothing is taken off.
    if (x->plan->count_pass && !x->plan->splice_path) failed += !count_into(x, x->null_choice, x->counts);
    for (size_t i = 0; i < choices->count && !ht_child_interrupted(); i++)
        failed += !count_into(x, &choices->list[i], x->counts);
    ht_progress_end(&x->progress);
    ht_cost_model_read(model);
    add_times(x->counts, model);
    if (x->plan->splice_path) ht_program_time_add(x->counts, model, choices->list[x->baseline].name);
    keep_all(x, x->counts, model);
    return failed;
}

int ht_count_judge(const struct ht_experiment *x) { return ht_fail_if_say(stderr, counted_comparison(x)); }

int ht_count_baseline(const struct ht_experiment *x, struct ht_error *error) {
    return ht_baseline_file_write(x->plan->write_baseline, counted_comparison(x), x->facts, error);
}

size_t ht_count_all(struct ht_experiment *x) {
    struct ht_cost_model model;
    size_t failed = ht_count_runs(x, &model);
    const char *baseline = x->plan->choices.list[x->baseline].name;
    if (failed < x->plan->choices.count) print_all(x, baseline, &model);
    return failed;
}
