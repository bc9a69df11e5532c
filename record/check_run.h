// SPDX-License-Identifier: Apache-2.0
// heaptape record --check: the program once more without the recorder, and what it took both times.
#ifndef HEAPTAPE_CHECK_RUN_H
#define HEAPTAPE_CHECK_RUN_H

#include <sys/types.h>

#include "found_logs.h"
#include "recorded_run.h"

struct check_run {
    double within_s;  // only a program that ended within this time; 0: there is no check
    bool quiet;
    off_t input_at;  // where its input began; -1: it is none that has places
};

// Before the first run. False with a line on stderr where the program's input cannot be read twice.
bool check_run_begin(struct check_run *check);

// After it: runs it again, prints the figures, and notes them in the log of the program. If something keeps it from that, it
// says so in a line on stderr.
void check_run_do(const struct check_run *check, const struct recorded_run *run,
                  const struct ending *recorded, const struct found_logs *found);

#endif
