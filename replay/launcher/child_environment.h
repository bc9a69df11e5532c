// SPDX-License-Identifier: Apache-2.0
// The environment that a measured child runs in.
#ifndef HEAPTAPE_CHILD_ENVIRONMENT_H
#define HEAPTAPE_CHILD_ENVIRONMENT_H

#include "allocator_choice.h"
#include "random_numbers.h"
#include "replay_job.h"

enum { HT_PADDING_BYTES_MAX = 4096, HT_ENVIRONMENT_MAX = 4096 };

struct ht_child_environment {
    char *variables[HT_ENVIRONMENT_MAX];  // NULL after the last
    struct ht_knob_variables knobs;
    char padding[HT_PADDING_BYTES_MAX], preload[4200], tunables[4200];
    char processors[40];
    char allocator[160], pass[32], run[48];
};

// Ours without preloads, which would trace or replace what is measured, and without what sets an allocator: whoever replays
// a trace gets the same figures. Plus the choice's knobs and settings, and padding of random length,
// because that length moves the stack, and with it the caches' luck. run: the number of this run, given to a
// command that wraps the child together with the allocator and the pass; 0: there is no such command, and
// nothing is given.
void ht_child_environment_make(struct ht_child_environment *environment, const struct ht_choice *choice,
                               const struct ht_job *job, uint64_t run, struct ht_random *random);

#endif
