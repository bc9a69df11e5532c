// SPDX-License-Identifier: Apache-2.0
#include "verify_runs.h"

#include <inttypes.h>
#include <stdio.h>

#include "known_faults.h"
#include "now.h"
#include "print.h"
#include "results_line.h"
#include "talk.h"
#include "turns.h"
#include "verify_report.h"

enum { PROBLEM_BYTES = 512, PRINTED_MAX = 5 };
static const uint64_t usual_window_ns = 1000000;  // threads as close together as in a memory pass

// Nobody waits for recorded times: where real time was asked for, trace time takes its place.
static struct ht_job verify_job(const struct ht_runner *r) {
    const struct ht_plan *plan = r->plan;
    const struct ht_pace *pace = &plan->paces.memory;
    return (struct ht_job){.pass = HT_PASS_VERIFY,
                           .virtual_time = pace->virtual_time || pace->real_ns_per_trace_ns > 0,
                           .end_ns = r->program->end_ns,
                           .scale = r->built->side_by_side,
                           .repeats = 1,
                           .fixed_addresses = plan->layout_fixed,
                           .processors = plan->processors,
                           .window_ns = plan->window_ns ? plan->window_ns : usual_window_ns};
}

static void print_report(const struct ht_runner *r, const char *name, const struct ht_verify_report *report,
                         const char *problem) {
    char calls[HT_NUMBER_OF_BYTES], times[HT_NUMBER_OF_BYTES], text[HT_EXERCISED_TEXT_BYTES];
    size_t printed = report->texts_count;
    if (printed > PRINTED_MAX && !r->plan->verbose) printed = PRINTED_MAX;
    for (size_t i = 0; i < printed; i++)
        ht_print(stderr, "heaptape replay: %s: verify: %s\n", name, report->texts[i]);
    if (report->violations > printed) {
        ht_print(stderr, "heaptape replay: %s: verify: %s\n", name,
                 ht_number_of(calls, report->violations, "violation"));
    }
    if (problem) ht_print(stderr, "heaptape replay: %s: verify: %s\n", name, problem);
    if (report->violations || problem || r->plan->quiet) return;
    ht_print(stderr, "%s: no fault found in the %s of this trace: %s; blocks checked %s\n", name,
             ht_number_of(calls, r->channel.exchange->outcome.operations, "call"),
             ht_verify_exercised(text, report), ht_number_of(times, report->blocks_checked, "time"));
    ht_print(stderr, "%s: not exercised: %s\n", name, ht_verify_not_exercised(text, report));
}

static bool verify_one(struct ht_runner *r, const struct ht_choice *choice) {
    char problem[PROBLEM_BYTES] = "", text[HT_NUMBER_OF_BYTES];
    struct ht_job job = verify_job(r);
    struct ht_verify_report report;
    struct ht_run_result line = {.choice = choice,
                                 .fixed_addresses = job.fixed_addresses,
                                 .load = ht_machine_load(),
                                 .verified = &report,
                                 .started_realtime_ns = ht_now_ns(CLOCK_REALTIME)};
    struct ht_random same = {1}, *padding = job.fixed_addresses ? &same : &r->random;
    bool done = ht_child_run(&r->channel, choice, &job, -1, padding, problem, sizeof problem);
    const struct ht_outcome *outcome = &r->channel.exchange->outcome;
    if (ht_child_interrupted()) return true;
    uint64_t expected = r->built->form->operations * r->built->side_by_side;
    if (done && outcome->operations != expected) {
        snprintf(problem, sizeof problem, "replayed %" PRIu64 " of %s", outcome->operations,
                 ht_number_of(text, expected, "operation"));
        done = false;
    }
    ht_verify_describe(r->built, &r->channel.exchange->findings, &report);
    print_report(r, choice->name, &report, done ? NULL : problem);
    struct ht_warnings known = {0};
    ht_known_faults_warn(&known, choice, report.known);
    ht_warnings_print(stderr, &known, 0);
    if (done && report.violations) {
        snprintf(problem, sizeof problem, "%s of malloc's contract",
                 ht_number_of(text, report.violations, "violation"));
    }
    line.outcome = outcome;
    line.problem = problem[0] ? problem : NULL;
    json_decref(ht_runner_keep(r, &line));
    return !line.problem;
}

size_t ht_verify_all(struct ht_runner *r) {
    const struct ht_choices *choices = &r->plan->choices;
    size_t failed = 0;
    for (size_t i = 0; i < choices->count && !ht_child_interrupted(); i++) {
        failed += !verify_one(r, &choices->list[i]);
    }
    return failed;
}
