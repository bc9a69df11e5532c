// SPDX-License-Identifier: Apache-2.0
// heaptape record --convert: a process beside the recorded run that follows every log of it as it appears.
#ifndef HEAPTAPE_RUN_CONVERTER_H
#define HEAPTAPE_RUN_CONVERTER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "conversion_turns.h"

struct run_converter {
    pid_t pid;
    int run;      // open as long as the program runs
    int results;  // what came of each log with a call
};

// Starts it for the logs in the folder that are of that run. False with errno.
bool run_converter_start(struct run_converter *converter, const char *folder, const char *run_id, bool quiet);

// The program has ended: waits for the traces of all logs that are complete. The others' followers keep what
// is needed to go on. Results are by process_rank; started: the process that was. False if not all of them are known.
bool run_converter_finish(struct run_converter *converter, pid_t started, struct converted **results,
                          size_t *count);
void run_converter_free(struct converted *results, size_t count);

#endif
