// One run as one line of results.jsonl, written the moment it ends.
#ifndef HEAPTAPE_RESULTS_LINE_H
#define HEAPTAPE_RESULTS_LINE_H

#include <stdbool.h>

#include "allocator_choice.h"
#include "choice_figures.h"
#include "counter_figures.h"
#include "decomposition.h"
#include "form_builder.h"
#include "heap_share.h"
#include "leftover_figures.h"
#include "machine_facts.h"
#include "replay_plan.h"
#include "run_figures.h"
#include "verify_told.h"

struct ht_results_line {
    const struct ht_plan *plan;
    const struct ht_built_form *built;
    const struct ht_choice *choice;
    const struct ht_outcome *outcome;  // faults, failures, who served
    const struct ht_machine *machine;
    const char *thp;  // transparent huge pages of the run, empty if not known
    const char *trace_sha256;
    const struct ht_heap_share *share;
    bool memory_pass;
    bool control;  // the baseline's second run in its round
    uint32_t round, repeats;
    int cpu;  // that the run was pinned to, or -1
    double load;
    double instructions;  // of one replay; NaN where they were not counted
    uint64_t started_realtime_ns;
    const struct ht_time_figures *time;      // NULL if not measured or failed
    const struct ht_memory_figures *memory;  // likewise
    const struct ht_counter_figures *counters;
    const struct ht_latencies *latencies;
    const struct ht_leftover_figures *leftovers;
    const struct ht_decomposition *decomposition;  // NULL: not known
    const struct ht_child_figures *memory_figures;  // of the memory pass
    const struct ht_choice_figures *of_choice;      // in the first lines of an allocator, else NULL
    const struct ht_verify_told *verified;          // of a pass that measures nothing, else NULL
    const char *problem;                            // what went wrong, or NULL
};

// Opens path for appending. Refuses what is not a file of results, such as the trace itself by a slip of the
// pen: appending would spoil it. Returns -1 with error.
int ht_results_open(const char *path, struct ht_error *error);

// Appends to fd with one write. Returns 0, or -1 with errno.
int ht_results_line_write(int fd, const struct ht_results_line *line);

#endif
