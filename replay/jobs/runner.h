// SPDX-License-Identifier: Apache-2.0
// What runs children, for the files that do.
#ifndef HEAPTAPE_RUNNER_H
#define HEAPTAPE_RUNNER_H

#include "allocator_choice.h"
#include "child_run.h"
#include "form_builder.h"
#include "huge_pages.h"
#include "limit_report.h"
#include "machine_facts.h"
#include "replay_plan.h"
#include "replay_warnings.h"
#include "results_line.h"
#include "run_figures.h"
#include "talk.h"

// Who takes a turn: the null replayer is 0, the allocators 1 to choices, the baseline's second run choices
// + 1.
enum { HT_WHO_NULL = 0 };

// One allocator replays the trace in one way.
struct ht_turn {
    uint32_t round;  // 0 in the warm-up, too
    bool warm_up;
    uint32_t who;
    enum ht_pass pass;   // flat, timed or memory
    bool timed_follows;  // of a flat turn: the time pass is not complete without the timed one
    int cpu;             // -1: any
    uint32_t layout;     // of the replay's code in a time pass
};

// What the children of one participant's latest turns have said: of the two turns of a time pass, and of the memory turn.
struct ht_participant {
    struct ht_outcome flat;  // of one repeat
    struct ht_timed_readings timed;
    const struct ht_latencies *latencies;  // NULL except while the timed turn is reported
    struct ht_round_cell cell;
    bool failed;
    char problem[512];
    double load;
    uint64_t started_realtime_ns;
};

// Who runs children on one trace, and keeps a line of results of each run.
struct ht_runner {
    const struct ht_plan *plan;
    const struct ht_built_form *built;
    const struct ht_choice *null_choice;
    size_t baseline;
    const char *trace_sha256;
    const struct ht_recorded_program *program;    // of --list: nothing is known of it
    const struct ht_recorded_settings *settings;  // of its allocator; NULL: there is no trace
    const uint64_t *own_bytes;  // the recorded program's own memory by sample; NULL: not known
    int results_fd;             // -1: results are not kept
    bool results_failed;        // writing them failed
    struct ht_machine machine;
    struct ht_huge_pages huge_pages;  // of all runs
    struct ht_child_channel channel;
    struct ht_random random;
    uint32_t repeats;                      // of the trace in one flat run; 0: one
    bool curves;                           // the judge wants them, too
    struct ht_choice_figures *of_choices;  // the null replayer's first, then one for each choice
    struct ht_participant participants[HT_CHOICES_MAX + 2];  // by who takes a turn
    struct ht_outcome null_memory;                           // of its latest memory turn, with its samples
    uint64_t *null_rss_bytes;
    struct ht_limit_result limits[HT_CHOICES_MAX];  // of the limit pass
    const char *limit_by;
    double instructions[HT_CHOICES_MAX];  // in calls of the allocator; NaN if not counted
    json_t *counts;  // of the simulation, by the allocator's name; NULL: nothing is counted
    size_t failed_counts;
    struct ht_progress progress;
    struct ht_warnings warnings;
    size_t warnings_told;  // of them, those that the judge knows
};

// How a run of that pass is asked for, by the options.
struct ht_job ht_runner_job(const struct ht_runner *runner, enum ht_pass pass);
// The same, but it need not last as long as the program did: trace time is virtual.
struct ht_job ht_runner_job_at_once(const struct ht_runner *runner, enum ht_pass pass);

// Asks a choice who it is: path, version and build id. False, with one line in problem, if it cannot prove it.
bool ht_runner_describe(struct ht_runner *runner, struct ht_choice *choice, char *problem, size_t room);

// Appends a line to the results, where there is to be one; what it says of the plan, trace and machine is filled in. Returns
// it, without its curves where the judge does not want them.
json_t *ht_runner_keep(struct ht_runner *runner, struct ht_run_result *line);

void ht_runner_free(struct ht_runner *runner);

#endif
