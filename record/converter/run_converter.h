// SPDX-License-Identifier: Apache-2.0
// heaptape record --convert: a process beside the recorded run that follows every log of it as it appears.
#ifndef HEAPTAPE_RUN_CONVERTER_H
#define HEAPTAPE_RUN_CONVERTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "heap_share.h"

// What came of one log.
struct converted {
    char *raw, *trace;
    char *executable;  // empty: unknown
    uint64_t events, file_bytes;
    struct ht_heap_share share;
    uint32_t pid;
    char hooks[64];  // what the log says of the hooks of a linked-in allocator; empty: nothing
    bool shell;      // it is of one
    bool complete;   // else the log is still there
    bool empty;      // there was no call in it
    bool running;    // its process was, when the program ended
};

struct run_converter {
    pid_t pid;
    int run;      // open as long as the program runs
    int results;  // what came of each log with a call
};

// Starts it for the logs in the folder that are of that run. False with errno.
bool run_converter_start(struct run_converter *converter, const char *folder, const char *run_id, bool quiet);

// The program has ended: waits for the traces of all logs that are complete. The others' followers keep what
// is needed to go on. Results are by shell_log_rank. False if not all of them are known.
bool run_converter_finish(struct run_converter *converter, struct converted **results, size_t *count);
void run_converter_free(struct converted *results, size_t count);

#endif
