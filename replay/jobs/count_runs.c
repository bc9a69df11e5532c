// SPDX-License-Identifier: Apache-2.0
#include "count_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost_table.h"
#include "now.h"
#include "print.h"
#include "profile_text.h"
#include "program_time.h"
#include "simulated_counts.h"
#include "simulation.h"
#include "talk.h"
#include "text_table.h"

enum { PROBLEM_BYTES = 512 };

// With accesses, the program's own touch memory, not the replay.
static struct ht_job count_job(const struct ht_runner *r) {
    struct ht_job job = ht_runner_job(r, HT_PASS_FLAT);
    job.repeats = 1;
    job.by_turns = 1;
    if (r->plan->splice_path) {
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
static json_t *count_one(struct ht_runner *r, const struct ht_choice *choice, char problem[PROBLEM_BYTES]) {
    static struct ht_simulation_words words;
    struct ht_random same = {1};
    char *folder = ht_counts_folder(), *pattern = folder ? ht_counts_pattern(folder) : NULL;
    struct ht_simulation simulation = {.caches = !r->plan->instructions,
                                       .profile = r->plan->profile,
                                       .out = pattern,
                                       .within = "ht_engine_run",
                                       .splice = r->plan->splice_path};
    struct ht_job job = count_job(r);
    const char *why;
    if (!pattern) {
        snprintf(problem, PROBLEM_BYTES, "cannot create a temporary folder");
        return NULL;
    }
    bool done = ht_simulation_prepare(&words, &simulation, &why);
    if (!done) snprintf(problem, PROBLEM_BYTES, "%s", why);
    else ht_simulation_set_environment(&words);
    r->channel.simulation = &words;
    done = done && ht_child_run(&r->channel, choice, &job, -1, &same, problem, PROBLEM_BYTES);
    r->channel.simulation = NULL;
    json_t *processes = ht_counts_collect(folder, pattern);
    if (done) return counts_of(processes, r->plan, problem);
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

static void print_all(const struct ht_runner *r, const struct ht_cost_model *model) {
    const json_t *all = r->counts;
    print_part(all, "in calls of", "allocator");
    print_times(all, r->plan->splice_path ? "allocator" : "time", model);
    if (r->plan->splice_path) print_program(all, r->plan->choices.list[r->baseline].name);
    ht_profile_print(stdout, all);
    fflush(stdout);
}

static double instructions_of(const json_t *counts) {
    const json_t *found = json_object_get(json_object_get(counts, "allocator"), "instructions");
    return json_is_integer(found) ? (double)json_integer_value(found) : NAN;
}

// A line of results for each allocator: its counts, and by which costs they became times.
static void keep_all(struct ht_runner *r, const json_t *all, const struct ht_cost_model *model) {
    static const char *const kept[] = {"allocator",     "program",      "time",    "blocks",
                                       "calls_by_size", "program_time", "sampled", "profile"};
    static const struct ht_outcome nothing_measured;
    for (size_t i = 0; i < r->plan->choices.count; i++) {
        const struct ht_choice *choice = &r->plan->choices.list[i];
        json_t *counts = json_object_get(all, choice->name);
        if (!counts) continue;
        json_t *calibration = ht_calibration_json(&model->calibration);
        json_t *made = json_pack("{s:s?, s:b, s:O}", "accesses", r->plan->splice_path, "calibrated",
                                 model->measured, "costs", json_object_get(calibration, "costs"));
        for (size_t j = 0; j < sizeof kept / sizeof *kept; j++) {
            json_t *value = json_object_get(counts, kept[j]);
            json_object_set(made, kept[j], value ? value : json_null());
        }
        struct ht_run_result line = {.choice = choice,
                                     .outcome = &nothing_measured,
                                     .cpu = -1,
                                     .load = ht_machine_load(),
                                     .instructions = instructions_of(counts),
                                     .counts = made,
                                     .started_realtime_ns = ht_now_ns(CLOCK_REALTIME)};
        json_decref(ht_runner_keep(r, &line));
        json_decref(made);
        json_decref(calibration);
    }
}

static bool count_into(struct ht_runner *r, const struct ht_choice *choice, json_t *all) {
    char problem[PROBLEM_BYTES] = "";
    if (!r->plan->quiet && ht_progress_due(&r->progress))
        ht_progress_draw(&r->progress, r->plan->count_pass ? "simulating: %s" : "counting instructions: %s",
                         choice->name);
    const char *why = unsimulated(choice);
    if (why) snprintf(problem, sizeof problem, "%s", why);
    json_t *counts = why ? NULL : count_one(r, choice, problem);
    if (ht_child_interrupted()) return false;
    if (counts) return !json_object_set_new(all, choice->name, counts);
    ht_progress_end(&r->progress);
    ht_print(stderr, "heaptape replay: %s: %s: %s\n", choice->name,
             r->plan->count_pass ? "--pass count" : "--instructions", problem);
    return false;
}

static size_t count_runs(struct ht_runner *r, struct ht_cost_model *model) {
    const struct ht_choices *choices = &r->plan->choices;
    size_t failed = 0;
    r->counts = json_object();
    ht_progress_start(&r->progress);
    // Instructions are those in calls of the allocator, from which nothing is taken off.
    if (r->plan->count_pass && !r->plan->splice_path) failed += !count_into(r, r->null_choice, r->counts);
    for (size_t i = 0; i < choices->count && !ht_child_interrupted(); i++)
        failed += !count_into(r, &choices->list[i], r->counts);
    ht_progress_end(&r->progress);
    ht_cost_model_read(model);
    add_times(r->counts, model);
    if (r->plan->splice_path) ht_program_time_add(r->counts, model, choices->list[r->baseline].name);
    keep_all(r, r->counts, model);
    for (size_t i = 0; i < choices->count; i++)
        r->instructions[i] = instructions_of(json_object_get(r->counts, choices->list[i].name));
    return failed;
}

size_t ht_count_instructions(struct ht_runner *r) {
    struct ht_cost_model model;
    return count_runs(r, &model);
}

json_t *ht_count_all(struct ht_runner *r, size_t *failed) {
    struct ht_cost_model model;
    *failed = count_runs(r, &model);
    if (*failed >= r->plan->choices.count) return NULL;
    if (!r->plan->json) {
        print_all(r, &model);
        return NULL;
    }
    return json_pack("{s:i, s:s*, s:b, s:o, s:O}", "schema", 1, "accesses", r->plan->splice_path,
                     "calibrated", model.measured, "calibration", ht_calibration_json(&model.calibration),
                     "counts", r->counts);
}
