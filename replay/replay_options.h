// The options of `replay`, from one table.
#ifndef HEAPTAPE_REPLAY_OPTIONS_H
#define HEAPTAPE_REPLAY_OPTIONS_H

#include <stdbool.h>

#include "replay_plan.h"

struct ht_replay_options {
    struct ht_plan plan;
    bool list;
    bool seed_given, at_given, pass_given;
    bool alloc_named;  // --alloc was given
    bool limit_alone;  // --pass limit
};

// Parses the command line; ends the program itself on bad usage (status 2) and on --help.
void ht_replay_options_parse(int argc, char **argv, struct ht_replay_options *options);

#endif
