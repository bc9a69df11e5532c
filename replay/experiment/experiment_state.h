// SPDX-License-Identifier: Apache-2.0
// How far an experiment has come, for the files that run it.
#ifndef HEAPTAPE_EXPERIMENT_STATE_H
#define HEAPTAPE_EXPERIMENT_STATE_H

#include <sched.h>

#include "allocator_choice.h"
#include "baseline_file.h"
#include "child_run.h"
#include "comparison.h"
#include "fail_if.h"
#include "failing_runs.h"
#include "form_builder.h"
#include "huge_pages.h"
#include "limit_result.h"
#include "machine_facts.h"
#include "replay_plan.h"
#include "replay_warnings.h"
#include "schedule.h"
#include "talk.h"

// What the children of one turn, or of one pass of two turns, have said so far.
struct ht_round_run {
    struct ht_outcome flat;  // of one repeat
    struct ht_timed_readings timed;
    const struct ht_latencies *latencies;  // NULL except while the timed turn is reported
    uint32_t layout;
    bool failed;
    char problem[512];
    double load;
    uint64_t started_realtime_ns;
};

struct ht_experiment {
    const struct ht_plan *plan;
    const struct ht_built_form *built;
    const struct ht_choice *null_choice;
    size_t baseline;
    const char *trace_sha256;
    const struct ht_recorded_program *program;    // of --list: nothing is known of it
    const struct ht_recorded_settings *settings;  // of its allocator; NULL: there is no trace
    const uint64_t *own_bytes;  // the recorded program's own memory by sample; NULL: not known
    int results_fd;             // -1: results are not kept
    struct ht_machine machine;
    struct ht_huge_pages huge_pages;  // of all runs
    struct ht_child_channel channel;
    struct ht_random random;
    struct ht_measurements measurements;
    enum ht_schedule_end end;
    double spent_s;    // of the warm-up and all rounds
    bool warned_late;  // that the budget won't do
    size_t failed_runs;
    struct ht_limit_result limits[HT_CHOICES_MAX];  // of the limit pass
    const char *limit_by;
    struct ht_failing_runs failing[HT_CHOICES_MAX], null_failing;
    bool results_failed;  // writing them failed
    uint32_t repeats;     // of the trace in one flat run, from the warm-up
    // Of the turns that run.
    struct ht_round_run runs[HT_CHOICES_MAX + 2];
    struct ht_outcome null_memory;
    uint64_t *null_rss_bytes;
    uint64_t fastest_cpu_ns;                             // of the warm-up, 0 if not known
    uint64_t begun_ns, rounds_begun_ns, round_begun_ns;  // the warm-up, the first round, this round
    uint64_t readings_taken, readings_dropped;
    struct ht_progress progress;
    const struct ht_turn *turn;  // that runs
    struct ht_warnings warnings;
    size_t warned_first;                  // of them, those that were printed before the first round
    double instructions[HT_CHOICES_MAX];  // in calls of the allocator; NaN if not counted
    json_t *counts;                    // of the simulation, by the allocator's name; NULL: nothing is counted
    size_t failed_counts;              // runs of --instructions
    const struct ht_earlier *earlier;  // the run of --baseline-file, or NULL
    json_t *facts;                     // under what all this runs
};

// What a child is asked for, by the options.
struct ht_job ht_experiment_job(const struct ht_experiment *experiment, enum ht_pass pass);
// The same, but it need not last as long as the program did: trace time is virtual.
struct ht_job ht_experiment_job_at_once(const struct ht_experiment *experiment, enum ht_pass pass);

#endif
