// SPDX-License-Identifier: Apache-2.0
// The options of `replay`, from one table.
#ifndef HEAPTAPE_REPLAY_OPTIONS_H
#define HEAPTAPE_REPLAY_OPTIONS_H

#include <stdbool.h>

#include "option_passes.h"
#include "replay_plan.h"

struct ht_replay_options {
    struct ht_plan plan;
    bool list;
    bool limit_alone;  // --pass limit
    struct ht_given_options given;
};

// Parses the command line; ends the program itself on bad usage (status 2) and on --help.
void ht_replay_options_parse(int argc, char **argv, struct ht_replay_options *options);

#endif
