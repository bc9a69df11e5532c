// SPDX-License-Identifier: Apache-2.0
#include "verify_runs.h"

#include <inttypes.h>
#include <stdio.h>

#include "machine_memory.h"
#include "now.h"
#include "print.h"
#include "replay_warnings.h"
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

// Threads of which some are always in the middle of a call, and no more memory than the machine can spare.
static struct ht_job torture_job(const struct ht_runner *r) {
    const uint64_t most_bytes = 512u << 20;
    uint64_t spare_bytes = ht_memory_available_bytes() / 4;
    uint32_t threads = 2 * (uint32_t)r->machine.cores;
    return (struct ht_job){.pass = HT_PASS_TORTURE,
                           .scale = 1,
                           .repeats = 1,
                           .syscall_socket = -1,
                           .snapshot_fd = -1,
                           .group_stat_fd = -1,
                           .fixed_addresses = r->plan->layout_fixed,
                           .processors = r->plan->processors,
                           .torture_threads = r->plan->one_thread ? 1
                                              : threads < 4       ? 4
                                              : threads < 16      ? threads
                                                                  : 16,
                           .torture_seed = r->plan->seed,
                           .torture_bytes = spare_bytes < most_bytes ? spare_bytes : most_bytes};
}

static bool torture(struct ht_runner *r, const struct ht_choice *choice, struct ht_random *padding,
                    struct ht_verify_report *report, char *problem, size_t room) {
    struct ht_job job = torture_job(r);
    struct ht_child_watch usual = r->channel.watch;
    char reason[PROBLEM_BYTES] = "", call[HT_VIOLATION_TEXT_BYTES];
    r->channel.watch.idle_seconds = 10;  // nothing in it sleeps for long: this is a deadlock
    bool done = ht_child_run(&r->channel, choice, &job, -1, padding, reason, sizeof reason);
    r->channel.watch = usual;
    ht_verify_add_torture(&r->channel.exchange->findings, report);
    ht_verify_torture_call(call, &report->torture);
    if (!done) snprintf(problem, room, "%.200s: %.300s", call, reason);
    return done;
}

static void print_report(const struct ht_runner *r, const char *name, const struct ht_verify_report *report,
                         uint64_t operations, const char *const problems[2]) {
    char calls[HT_NUMBER_OF_BYTES], times[HT_NUMBER_OF_BYTES], text[HT_EXERCISED_TEXT_BYTES];
    size_t printed = report->texts_count;
    if (printed > PRINTED_MAX && !r->plan->verbose) printed = PRINTED_MAX;
    for (size_t i = 0; i < printed; i++)
        ht_print(stderr, "heaptape replay: %s: verify: %s\n", name, report->texts[i]);
    if (report->violations > printed) {
        ht_print(stderr, "heaptape replay: %s: verify: %s\n", name,
                 ht_number_of(calls, report->violations, "violation"));
    }
    for (int i = 0; i < 2; i++)
        if (problems[i][0]) ht_print(stderr, "heaptape replay: %s: verify: %s\n", name, problems[i]);
    if (ht_verify_departures(text, report)[0] && !r->plan->quiet)
        ht_print(stderr, "heaptape replay: %s: verify: no violation, but against the standards: %s\n", name,
                 text);
    if (r->plan->quiet) return;
    if (!report->violations && !problems[0][0] && !problems[1][0]) {
        ht_print(stderr, "%s: no fault found in the %s of this trace: %s; blocks checked %s\n", name,
                 ht_number_of(calls, operations, "call"), ht_verify_exercised(text, report),
                 ht_number_of(times, report->blocks_checked, "time"));
        if (report->torture.calls)
            ht_print(stderr, "%s: nor in a torture of %s: %s\n", name,
                     ht_number_of(calls, report->torture.calls, "call"), ht_verify_tortured(text, report));
    }
    ht_print(stderr, "%s: not exercised: %s\n", name, ht_verify_not_exercised(text, report));
}

static bool verify_one(struct ht_runner *r, const struct ht_choice *choice) {
    char problems[2][PROBLEM_BYTES] = {"", ""}, text[HT_NUMBER_OF_BYTES];
    struct ht_job job = verify_job(r);
    struct ht_verify_report report;
    struct ht_run_result line = {.choice = choice,
                                 .fixed_addresses = job.fixed_addresses,
                                 .load = ht_machine_load(),
                                 .verified = &report,
                                 .started_realtime_ns = ht_now_ns(CLOCK_REALTIME)};
    struct ht_random same = {1}, *padding = job.fixed_addresses ? &same : &r->random;
    bool done = ht_child_run(&r->channel, choice, &job, -1, padding, problems[0], PROBLEM_BYTES);
    struct ht_outcome outcome = r->channel.exchange->outcome;
    if (ht_child_interrupted()) return true;
    uint64_t expected = r->built->form->operations * r->built->side_by_side;
    if (done && outcome.operations != expected) {
        snprintf(problems[0], PROBLEM_BYTES, "replayed %" PRIu64 " of %s", outcome.operations,
                 ht_number_of(text, expected, "operation"));
        done = false;
    }
    ht_verify_describe(r->built, &r->channel.exchange->findings, &report);
    report.one_thread = r->plan->one_thread;
    if (outcome.state != HT_OUTCOME_REFUSED && !choice->refused_calls)
        done &= torture(r, choice, padding, &report, problems[1], PROBLEM_BYTES);
    if (ht_child_interrupted()) return true;
    print_report(r, choice->name, &report, outcome.operations,
                 (const char *const[2]){problems[0], problems[1]});
    struct ht_warnings known = {0};
    ht_known_faults_warn(&known, choice, report.known);
    ht_warnings_print(stderr, &known, 0);
    if (done && report.violations) {
        snprintf(problems[0], PROBLEM_BYTES, "%s of malloc's contract",
                 ht_number_of(text, report.violations, "violation"));
    }
    outcome.known_failures = report.known;
    line.outcome = &outcome;
    line.problem = problems[0][0] ? problems[0] : problems[1][0] ? problems[1] : NULL;
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
