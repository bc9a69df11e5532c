// SPDX-License-Identifier: Apache-2.0
// One run as one line of results.jsonl, written the moment it ends.
#ifndef HEAPTAPE_RESULTS_LINE_H
#define HEAPTAPE_RESULTS_LINE_H

#include <jansson.h>
#include <stdbool.h>

#include "allocator_choice.h"
#include "baseline_check.h"
#include "error.h"
#include "form_builder.h"
#include "limit_report.h"
#include "machine_facts.h"
#include "recorded_program.h"
#include "replay_plan.h"
#include "run_figures.h"
#include "verify_report.h"

// What one participant showed in one round.

// What the allocator made of the processors that it was shown, as it reports it; NaN where it does not.
struct ht_arena_figures {
    double used, most;
};

struct ht_round_cell {
    bool processors_asked;           // in the memory pass, with --cpus: for their number or the current one
    struct ht_arena_figures arenas;  // of the memory pass
    struct ht_time_figures time;
    struct ht_memory_figures memory;  // its samples are not kept
    struct ht_baseline_check check;   // of the memory pass under the recorded allocator
    struct ht_counter_figures counters;
    struct ht_leftover_figures leftovers;
    struct ht_decomposition decomposition;
};

struct ht_run_result {
    const struct ht_plan *plan;
    const struct ht_built_form *built;
    const struct ht_choice *choice;
    const struct ht_outcome *outcome;  // faults, failures, who served
    const struct ht_machine *machine;
    const char *thp;  // transparent huge pages of the run, empty if not known
    const char *trace_sha256;
    const struct ht_recorded_program *program;
    bool memory_pass;
    bool control;  // the baseline's second run in its round
    uint32_t round, repeats;
    int cpu;          // that the run was pinned to, or -1
    uint32_t layout;  // of the replay's code
    bool fixed_addresses;
    double load;
    double instructions;  // of one replay; NaN where they were not counted
    uint64_t started_realtime_ns;
    const struct ht_time_figures *time;      // NULL if not measured or failed
    const struct ht_memory_figures *memory;  // likewise
    const struct ht_baseline_check *check;   // likewise; NULL: not of a run under the recorded allocator
    const uint64_t *own_bytes;               // of the recorded program, by sample; NULL: not known
    const struct ht_counter_figures *counters;
    const struct ht_latencies *latencies;
    const struct ht_leftover_figures *leftovers;
    const struct ht_arena_figures *arenas;
    bool processors_asked;                          // of the memory pass, where other processors are shown
    const struct ht_decomposition *decomposition;   // NULL: not known
    const struct ht_child_figures *memory_figures;  // of the memory pass
    const struct ht_choice_figures *of_choice;      // in the first lines of an allocator, else NULL
    const struct ht_verify_report *verified;        // of a pass that measures nothing, else NULL
    const struct ht_limit_result *limit;            // of the limit pass, else NULL
    const char *limit_by;
    const json_t *counts;  // of the count pass, else NULL
    const char *problem;   // what went wrong, or NULL
};

// Latencies, counters, system calls, slop and what is left over, as JSON.

// What is known of a choice over all rounds: latencies, system calls, slop and its own reports.
json_t *ht_figures_json_choice(const struct ht_choice_figures *figures);

// The calls by which the program controls its allocator, and which allocators obey them in replay, as they would.

// All calls by name, with how often they were made, whether they change what an allocator does, whether the kernel obeys them,
// whoever serves, and the names of those that obey; an array.
json_t *ht_controls_json(const struct ht_control_counts *counts, const struct ht_choices *choices);

// Opens path for appending. Refuses what is not a file of results, such as the trace itself by a slip of the
// pen: appending would spoil it. Returns -1 with error.
int ht_results_open(const char *path, struct ht_error *error);

// How each line begins; trace is given away.
json_t *ht_results_head(const struct ht_plan *plan, const struct ht_choice *choice, json_t *trace,
                        const char *pass, uint32_t round, uint64_t seed, const char *pace);
// How each line ends.
void ht_results_machine(json_t *run, const struct ht_machine *machine, uint64_t started_realtime_ns);

// The line as JSON; without its curves "timeline" is null.
json_t *ht_results_line(const struct ht_run_result *line, bool with_curves);
// Appends it to fd with one write. Returns 0, or -1 with errno.
int ht_results_line_write(int fd, const json_t *line);

// What one pastes before a command to have the same knobs, what the recorded program had beside them, and what the allocator
// needs anyway.
json_t *ht_environment_json(const struct ht_choice *choice);
// The settings of the recorded program that are in force, by their names.
json_t *ht_settings_json(const struct ht_choice *choice);
// Those that no replay has, as a list of NAME=value.
json_t *ht_left_out_json(const struct ht_choice *choice);

#endif
