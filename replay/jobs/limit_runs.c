// SPDX-License-Identifier: Apache-2.0
#include "limit_runs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limit_report.h"
#include "memory_group.h"
#include "now.h"
#include "print.h"
#include "results_line.h"
#include "talk.h"
#include "turns.h"

enum { PROBLEM_BYTES = 512, SEARCH_RUNS_MAX = 40, PAGE_BYTES = 4096 };
static const double near_enough = 0.005, first_step = 0.02;

// How the limit is enforced, the same for all allocators.
struct limit_runs {
    struct ht_runner *r;
    bool by_group;             // by a control group; else by readings of RSS in a run without a limit
    uint64_t harness_bytes;    // what the null replayer holds in such a group: on top of each limit
    uint64_t *null_rss_bytes;  // where it is by readings: of the null replayer
};

// One run, in a group of its own where job is of the limit pass.
static bool run_child(struct limit_runs *runs, const struct ht_choice *choice, struct ht_job *job,
                      uint64_t limit_bytes, bool *out_of_memory, char problem[PROBLEM_BYTES]) {
    struct ht_runner *r = runs->r;
    struct ht_random same = {1};
    struct ht_memory_group group;
    bool grouped = job->pass == HT_PASS_LIMIT;
    *out_of_memory = false;
    if (grouped && !ht_memory_group_make(&group, limit_bytes, problem, PROBLEM_BYTES)) return false;
    if (grouped) job->group_stat_fd = group.stat_fd;
    r->channel.group = grouped ? &group : NULL;
    bool done = ht_child_run(&r->channel, choice, job, -1, &same, problem, PROBLEM_BYTES);
    r->channel.group = NULL;
    if (grouped) {
        *out_of_memory = !done && ht_memory_group_killed(&group);
        ht_memory_group_remove(&group);
    }
    return done || *out_of_memory;
}

// The peak of the process, and the first reading beyond the limit. Pages that an allocator has left to the kernel count.
static uint64_t judge_readings(const struct limit_runs *runs, uint64_t limit_bytes,
                               struct ht_limit_result *result) {
    const struct ht_runner *r = runs->r;
    uint64_t most = 0;
    result->lives = true;
    for (uint32_t i = 0; i < r->built->form->samples; i++) {
        uint64_t rss = r->channel.high_bytes[i], null = runs->null_rss_bytes ? runs->null_rss_bytes[i] : 0;
        uint64_t bytes = (rss > null ? rss - null : 0) + (r->own_bytes ? r->own_bytes[i] : 0);
        if (bytes > most) most = bytes;
        if (bytes <= limit_bytes || !result->lives) continue;
        result->lives = false;
        result->died_at_ns = r->built->points[i].time_ns;
        result->died_event = r->built->points[i].event;
    }
    return most;
}

static void keep(struct limit_runs *runs, const struct ht_choice *choice,
                 const struct ht_limit_result *result, const char *problem, uint64_t started_realtime_ns) {
    struct ht_runner *r = runs->r;
    struct ht_run_result line = {.choice = choice,
                                 .outcome = &r->channel.exchange->outcome,
                                 .instructions = NAN,
                                 .repeats = 1,
                                 .cpu = -1,
                                 .fixed_addresses = true,
                                 .load = ht_machine_load(),
                                 .limit = result,
                                 .limit_by = ht_limit_by(runs->by_group),
                                 .problem = problem,
                                 .started_realtime_ns = started_realtime_ns};
    if (result->known || problem) json_decref(ht_runner_keep(r, &line));
}

// Whether it lives under the limit. False without an answer, with problem.
static bool try_limit(struct limit_runs *runs, const struct ht_choice *choice, uint64_t limit_bytes,
                      struct ht_limit_result *result, char problem[PROBLEM_BYTES]) {
    struct ht_runner *r = runs->r;
    struct ht_job job = ht_runner_job_at_once(r, runs->by_group ? HT_PASS_LIMIT : HT_PASS_MEMORY);
    uint64_t started_ns = ht_now_ns(CLOCK_REALTIME);
    bool out_of_memory;
    job.fixed_addresses = 1;
    *result = (struct ht_limit_result){.limit_bytes = limit_bytes, .searched = r->plan->memory_max_search};
    char text[HT_LIMIT_TEXT_BYTES];
    if (!r->plan->quiet && ht_progress_due(&r->progress))
        ht_progress_draw(&r->progress, "limit of %s: %s", ht_limit_text(text, limit_bytes), choice->name);
    result->known = run_child(runs, choice, &job, limit_bytes + runs->harness_bytes, &out_of_memory, problem);
    if (result->known && runs->by_group) {
        uint64_t reached = r->channel.exchange->outcome.samples_reached;
        if (reached > r->built->form->samples) reached = r->built->form->samples;
        result->lives = !out_of_memory;
        result->died_at_ns = out_of_memory && reached ? r->built->points[reached - 1].time_ns : 0;
        result->died_event = out_of_memory && reached ? r->built->points[reached - 1].event : 0;
    } else if (result->known) {
        judge_readings(runs, limit_bytes, result);
    }
    if (!ht_child_interrupted()) keep(runs, choice, result, result->known ? NULL : problem, started_ns);
    return result->known;
}

static uint64_t near(uint64_t bytes, double factor) {
    return (uint64_t)((double)bytes * factor) / 4096 * 4096;
}

// The peak without a limit is where the search begins: usually a step or two from the answer.
static bool peak_of(struct limit_runs *runs, const struct ht_choice *choice, uint64_t *peak_bytes,
                    char problem[PROBLEM_BYTES]) {
    struct ht_job job = ht_runner_job_at_once(runs->r, HT_PASS_MEMORY);
    struct ht_limit_result ignored;
    bool out_of_memory;
    job.fixed_addresses = 1;
    if (!run_child(runs, choice, &job, HT_NO_LIMIT, &out_of_memory, problem)) return false;
    *peak_bytes = judge_readings(runs, HT_NO_LIMIT, &ignored);
    return true;
}

// Limits are whole pages.
static bool is_found(uint64_t lives, uint64_t dies) {
    if (lives && lives <= PAGE_BYTES) return true;
    return lives && dies &&
           (lives - dies <= PAGE_BYTES || (double)(lives - dies) <= near_enough * (double)lives);
}

static bool search(struct limit_runs *runs, const struct ht_choice *choice, struct ht_limit_result *result,
                   char problem[PROBLEM_BYTES]) {
    uint64_t lives = 0, dies = 0, at;
    double step = first_step;
    if (!peak_of(runs, choice, &at, problem)) return false;
    for (int i = 0; i < SEARCH_RUNS_MAX && !is_found(lives, dies); i++) {
        if (lives && dies) at = near(lives / 2 + dies / 2, 1);
        if (at < PAGE_BYTES) at = PAGE_BYTES;
        if (!try_limit(runs, choice, at, result, problem)) return false;
        if (result->lives) lives = at;
        else dies = at;
        // Further each time, until the answer lies in between.
        if (!lives || !dies)
            at = near(at, result->lives ? 1 / (1 + step) : 1 + step) + (result->lives ? 0 : PAGE_BYTES);
        step *= 1.5;
    }
    result->least_bytes = lives;
    result->dies_bytes = dies;
    snprintf(problem, PROBLEM_BYTES, "no limit was found under which it lives");
    return lives > 0;
}

// A group without a limit shows what the harness takes itself, and whether groups can be had.
static bool begin(struct limit_runs *runs, char why_not[PROBLEM_BYTES], char problem[PROBLEM_BYTES]) {
    struct ht_runner *r = runs->r;
    struct ht_memory_group probe;
    bool out_of_memory;
    ht_memory_groups_sweep();
    runs->by_group = ht_memory_group_make(&probe, UINT64_C(1) << 50, why_not, PROBLEM_BYTES);
    if (runs->by_group) ht_memory_group_remove(&probe);
    const uint64_t *own_bytes = r->channel.own_bytes;
    struct ht_job job = ht_runner_job_at_once(r, runs->by_group ? HT_PASS_LIMIT : HT_PASS_MEMORY);
    job.fixed_addresses = 1;
    r->channel.own_bytes = NULL;
    // What outlasts a child, such as the exchange, is charged to whoever touches it first: not to a child with a limit.
    struct ht_job first = ht_runner_job_at_once(r, HT_PASS_MEMORY);
    bool ran =
        (!runs->by_group || run_child(runs, r->null_choice, &first, HT_NO_LIMIT, &out_of_memory, problem)) &&
        run_child(runs, r->null_choice, &job, HT_NO_LIMIT, &out_of_memory, problem);
    r->channel.own_bytes = own_bytes;
    if (!ran) return false;
    uint64_t held = r->channel.exchange->figures.group_bytes;
    if (runs->by_group && held != HT_FIGURE_UNKNOWN) runs->harness_bytes = held;
    size_t bytes = r->built->form->samples * sizeof(uint64_t);
    runs->null_rss_bytes = malloc(bytes ? bytes : 1);
    if (runs->null_rss_bytes) memcpy(runs->null_rss_bytes, r->channel.rss_bytes, bytes);
    return runs->null_rss_bytes != NULL;
}

static bool run_one(struct limit_runs *runs, size_t i) {
    struct ht_runner *r = runs->r;
    const struct ht_choice *choice = &r->plan->choices.list[i];
    char problem[PROBLEM_BYTES] = "";
    bool answered = r->plan->memory_max_search
                        ? search(runs, choice, &r->limits[i], problem)
                        : try_limit(runs, choice, r->plan->memory_max_bytes, &r->limits[i], problem);
    if (answered || ht_child_interrupted()) return true;
    ht_progress_end(&r->progress);
    ht_print(stderr, "heaptape replay: %s, limit pass: %s\n", choice->name, problem);
    return false;
}

size_t ht_limit_all(struct ht_runner *r) {
    struct limit_runs runs = {.r = r};
    char why_not[PROBLEM_BYTES] = "", problem[PROBLEM_BYTES] = "";
    size_t failed = 0;
    r->channel.own_bytes = r->own_bytes;
    ht_progress_start(&r->progress);
    if (!begin(&runs, why_not, problem)) {
        ht_progress_end(&r->progress);
        if (!ht_child_interrupted()) ht_print(stderr, "heaptape replay: null, limit pass: %s\n", problem);
        return r->plan->choices.count;
    }
    if (!runs.by_group)
        ht_print(
            stderr,
            "heaptape replay: no control group: %s; RSS of a run without a limit is held against the limit instead\n",
            why_not);
    for (size_t i = 0; i < r->plan->choices.count && !ht_child_interrupted(); i++)
        failed += !run_one(&runs, i);
    ht_progress_end(&r->progress);
    free(runs.null_rss_bytes);
    r->limit_by = ht_limit_by(runs.by_group);
    if (ht_child_interrupted()) return failed;
    bool alone = !r->plan->time_pass && !r->plan->memory_pass;
    struct ht_limit_report report = {r->plan, r->limits, r->limit_by, r->own_bytes != NULL};
    if (alone && r->plan->json) ht_limit_report_json(stdout, &report);
    else if (!r->plan->json) ht_limit_report_print(stdout, &report);
    return failed;
}
