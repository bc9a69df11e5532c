// The rounds: who runs when, and what came of it.
#ifndef HEAPTAPE_EXPERIMENT_H
#define HEAPTAPE_EXPERIMENT_H

#include "allocator_choice.h"
#include "child_run.h"
#include "comparison.h"
#include "form_builder.h"
#include "machine_facts.h"
#include "replay_options.h"

struct ht_experiment {
    const struct ht_replay_options *options;
    const struct ht_built_form *built;
    const struct ht_choice *null_choice;
    const char *trace_sha256;
    uint64_t end_ns;  // of the trace
    int results_fd;   // -1: results are not kept
    struct ht_machine machine;
    struct ht_child_channel channel;
    struct ht_random random;
    struct ht_measurements measurements;
    size_t failed_runs;
    bool results_failed;  // writing them failed
};

// Asks a choice who it is: path, version and build id. False, with one line in problem, if it can't prove it.
bool ht_experiment_describe(struct ht_experiment *experiment, struct ht_choice *choice, char *problem,
                            size_t room);

// Runs the rounds: the null replayer first in each, because its figures are taken off the others' as soon as
// they are there, then each allocator once, in random order. Returns 0; -1 if it had to end early.
int ht_experiment_run(struct ht_experiment *experiment);

void ht_experiment_free(struct ht_experiment *experiment);

#endif
