// SPDX-License-Identifier: Apache-2.0
// All that is known of one run, as it goes into the results.
#ifndef HEAPTAPE_RUN_RESULT_H
#define HEAPTAPE_RUN_RESULT_H

#include <stdbool.h>

#include "allocator_choice.h"
#include "choice_figures.h"
#include "counter_figures.h"
#include "decomposition.h"
#include "form_builder.h"
#include "leftover_figures.h"
#include "limit_result.h"
#include "machine_facts.h"
#include "recorded_program.h"
#include "replay_plan.h"
#include "round_cell.h"
#include "run_figures.h"
#include "verify_report.h"

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

#endif
