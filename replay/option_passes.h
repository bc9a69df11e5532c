// SPDX-License-Identifier: Apache-2.0
// In which passes each option of `replay` has a meaning. Elsewhere it is refused: nobody would see that it did nothing.
#ifndef HEAPTAPE_OPTION_PASSES_H
#define HEAPTAPE_OPTION_PASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay_plan.h"

// What the command line has.
struct ht_given_options {
    uint64_t options;  // a bit for each
    const char *pace;  // the value of --pace, or NULL
};

// Notes that the option of that name was given.
void ht_option_note(struct ht_given_options *given, const char *name);

bool ht_option_given(const struct ht_given_options *given, const char *name);

// The first given option that means nothing to the trace of a group of processes, or NULL. Of those that mean something a value may
// not.
const char *ht_option_unfit_for_group(const struct ht_given_options *given);

// Whether an option was given that means nothing to what is to run; problem says which, and what it takes.
bool ht_option_without_pass(const struct ht_given_options *given, const struct ht_plan *plan, char *problem,
                            size_t room);

#endif
