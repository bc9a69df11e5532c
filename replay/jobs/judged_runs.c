// SPDX-License-Identifier: Apache-2.0
#include "judged_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "count_runs.h"
#include "error.h"
#include "figures_json.h"
#include "json_values.h"
#include "judge_context.h"
#include "limit_report.h"
#include "machine_activity.h"
#include "print.h"
#include "profile_text.h"
#include "turns.h"

// What is drawn on the terminal while a job runs: words of the judge, and between them who runs, and for how long.
struct drawing {
    struct ht_runner *runner;
    const char *before, *after, *name;
};

bool ht_judge_meet(struct ht_judge *judge, const struct ht_runner *r, char *missing, size_t room,
                   int *status) {
    json_t *hello = judge->socket >= 0 ? ht_judge_read(judge) : NULL, *ready = NULL;
    if (hello) ht_judge_write(judge, ht_judge_context(r));
    if (hello) ready = ht_judge_read(judge);
    const char *lacks = json_string_value(json_object_get(ready, "missing"));
    bool accepts = json_is_true(json_object_get(ready, "ready"));
    *status = HT_EXIT_DONE;
    if (!ready || lacks) snprintf(missing, room, "%s", lacks ? lacks : "Python cannot be run");
    else if (!accepts) *status = (int)json_integer_value(json_object_get(ready, "status"));
    if (ready && !lacks && !accepts && !*status) *status = HT_EXIT_FAILED;
    json_decref(ready);
    json_decref(hello);
    return accepts;
}

static void draw(void *context, double seconds) {
    struct drawing *drawing = context;
    struct ht_runner *r = drawing->runner;
    char running[32] = "";
    if (r->plan->quiet || !ht_progress_due(&r->progress)) return;
    if (seconds >= 2) snprintf(running, sizeof running, " for %.0f s", seconds);
    ht_progress_draw(&r->progress, "%s%s%s%s", drawing->before, drawing->name, running, drawing->after);
}

static const char *text_of(const json_t *job, const char *key) {
    const char *text = json_string_value(json_object_get(job, key));
    return text ? text : "";
}

static uint32_t number_of(const json_t *job, const char *key) {
    return (uint32_t)json_integer_value(json_object_get(job, key));
}

static bool read_turn(const struct ht_runner *r, const json_t *job, struct ht_turn *turn) {
    const char *pass = text_of(job, "pass");
    *turn = (struct ht_turn){.round = number_of(job, "round"),
                             .who = number_of(job, "who"),
                             .warm_up = json_is_true(json_object_get(job, "warm_up")),
                             .timed_follows = json_is_true(json_object_get(job, "timed_follows")),
                             .cpu = (int)json_integer_value(json_object_get(job, "cpu")),
                             .layout = number_of(job, "layout")};
    if (!strcmp(pass, "flat")) turn->pass = HT_PASS_FLAT;
    else if (!strcmp(pass, "timed")) turn->pass = HT_PASS_TIMED;
    else if (!strcmp(pass, "memory")) turn->pass = HT_PASS_MEMORY;
    else return false;
    return turn->who <= r->plan->choices.count + 1 && turn->layout < HT_LAYOUTS;
}

// The warnings that runs have given since the last answer.
static json_t *new_warnings(struct ht_runner *r) {
    json_t *list = json_array();
    for (; r->warnings_told < r->warnings.count; r->warnings_told++) {
        const struct ht_warning *warning = &r->warnings.list[r->warnings_told];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:s}", "kind", ht_warning_names[warning->kind], "message",
                                        json_text(warning->message), "remedy", warning->remedy));
    }
    return list;
}

// Both draw from one stream of random numbers: its state goes back and forth.
static json_t *random_json(const struct ht_runner *r) {
    char text[32];
    snprintf(text, sizeof text, "%llx", (unsigned long long)r->random.state);
    return json_string(text);
}

static void run_turn(struct ht_runner *r, const json_t *job, json_t *answer) {
    struct ht_turn turn;
    struct drawing drawing = {.runner = r, .before = text_of(job, "before"), .after = text_of(job, "after")};
    if (!read_turn(r, job, &turn)) {
        json_object_set_new(answer, "problem", json_string("not a turn"));
        return;
    }
    drawing.name = ht_turn_choice(r, &turn)->name;
    r->random.state = strtoull(text_of(job, "random"), NULL, 16);
    r->repeats = number_of(job, "repeats");
    r->curves = json_is_true(json_object_get(job, "curves"));
    r->channel.watch.deadline_ns = (uint64_t)json_integer_value(json_object_get(job, "deadline_ns"));
    r->channel.watch.waiting = draw;
    r->channel.watch.context = &drawing;
    draw(&drawing, 0);
    ht_turn_run(r, &turn, answer);
    r->channel.watch.waiting = NULL;
    r->channel.watch.deadline_ns = 0;
    json_object_set_new(answer, "cut_short", json_boolean(r->channel.cut_short));
    json_object_set_new(answer, "random", random_json(r));
}

// The whole count pass, with its text on stdout; "print" is what --json is to print.
static void run_counts(struct ht_runner *r, json_t *answer) {
    size_t failed;
    json_t *print = ht_count_all(r, &failed);
    json_set_number(answer, "failed", failed);
    json_object_set(answer, "counts", r->counts);
    json_object_set_new(answer, "print", print ? print : json_null());
}

static void run_instructions(struct ht_runner *r, json_t *answer) {
    r->failed_counts = ht_count_instructions(r);
    json_set_number(answer, "failed", r->failed_counts);
    json_object_set(answer, "counts", r->counts);
}

static json_t *limits_json(const struct ht_runner *r) {
    json_t *list = json_array();
    for (size_t i = 0; r->plan->limit_pass && i < r->plan->choices.count; i++)
        json_array_append_new(list, ht_limit_json(&r->limits[i], r->limit_by));
    return list;
}

static json_t *figures_json(const struct ht_runner *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->plan->choices.count; i++)
        json_array_append_new(list, ht_figures_json_choice(&r->of_choices[1 + i]));
    return list;
}

static json_t *activity_json(const struct ht_judge *judge) {
    struct ht_activity now;
    ht_activity_read(&now);
    return json_pack("{s:f, s:o, s:f, s:o, s:o, s:o}", "wall_s", now.wall_s, "busy_s",
                     json_figure(now.busy_s), "own_s", now.own_s + ht_judge_cpu_s(judge), "stolen_s",
                     json_figure(now.stolen_s), "throttled_s", json_figure(now.throttled_s), "swapped_bytes",
                     json_figure(now.swapped_bytes));
}

static void print_profile(const struct ht_runner *r) {
    if (r->counts) ht_profile_print(stdout, r->counts);
    fflush(stdout);
}

// False: it is none of ours.
static bool run_job(const struct ht_judge *judge, struct ht_runner *r, const json_t *job, json_t *answer) {
    const char *name = text_of(job, "job");
    if (!strcmp(name, "turn")) run_turn(r, job, answer);
    else if (!strcmp(name, "counts")) run_counts(r, answer);
    else if (!strcmp(name, "instructions")) run_instructions(r, answer);
    else if (!strcmp(name, "figures")) json_object_set_new(answer, "figures", figures_json(r));
    else if (!strcmp(name, "activity")) json_object_set_new(answer, "activity", activity_json(judge));
    else if (!strcmp(name, "profile")) print_profile(r);
    else if (!strcmp(name, "progress")) ht_progress_start(&r->progress);
    else if (!strcmp(name, "quiet")) ht_progress_end(&r->progress);
    else return false;
    return true;
}

int ht_judge_serve(struct ht_judge *judge, struct ht_runner *r, size_t refused) {
    json_t *job;
    fflush(stdout);
    ht_judge_write(judge, json_pack("{s:I, s:o, s:o, s:o}", "refused", (json_int_t)refused, "limits",
                                    limits_json(r), "warnings", new_warnings(r), "random", random_json(r)));
    while ((job = ht_judge_read(judge))) {
        const json_t *status = json_object_get(job, "status");
        json_t *answer = json_object();
        if (status) {
            int judged = (int)json_integer_value(status);
            json_decref(answer);
            json_decref(job);
            return judged;
        }
        if (!run_job(judge, r, job, answer)) json_object_set_new(answer, "unknown", json_true());
        json_object_set_new(answer, "warnings", new_warnings(r));
        json_object_set_new(answer, "interrupted", json_boolean(ht_child_interrupted()));
        json_object_set_new(answer, "results_failed", json_boolean(r->results_failed));
        ht_judge_write(judge, answer);
        json_decref(job);
    }
    ht_progress_end(&r->progress);
    ht_print(stderr, "heaptape replay: %s; completed runs are %s%s\n",
             ht_child_interrupted() ? "stopped" : "what judges the runs has ended before it could",
             r->plan->results_path ? "in " : "lost", r->plan->results_path ? r->plan->results_path : "");
    return HT_EXIT_FAILED;
}
