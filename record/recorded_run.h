// SPDX-License-Identifier: Apache-2.0
// Runs a program with the shim preloaded, or once more without it: environment, signals, and how it ended.
#ifndef HEAPTAPE_RECORDED_RUN_H
#define HEAPTAPE_RECORDED_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "group_watch.h"

// The shim gets this by its environment variables.
struct recorded_run {
    char **command;
    const char *shim, *directory, *id;  // the id finds the logs of all its processes again
    const char *only, *start;           // NULL: all processes, at once
    const char *hooks;                  // of a linked-in allocator (hook_plan.h), NULL: none
    uint64_t log_bytes_max;             // 0: no limit
    bool any_folder, says_how_to_resume;
    bool cuts_logs;        // of processes that end, while the run goes on
    unsigned site_frames;  // 0: no call sites
    const struct ht_simulation_words
        *simulation;                // runs it under simulation instead of with the shim; or NULL
    double peak_for_s;              // so long its memory is looked at; 0: not at all
    struct group_watch *group;      // looks at the processes that it forks; or NULL
    const struct run_alone *alone;  // runs it without the shim; or NULL
};

// The second run of a program that was recorded. Output that went into a pipe or file goes nowhere this time.
struct run_alone {
    double limit_s;  // it is ended if it takes longer
    int output;      // where its output comes out, to be forgotten; -1: it has that of the first run
    int into[2];     // what is instead of descriptors 1 and 2; -1: as they are
};

// How a program ended, and the name that it then had.
struct ending {
    pid_t pid;
    int wait_status;
    double cpu_ns;  // of it and of all its children that were waited for
    double took_s;
    uint64_t rss_peak_bytes;  // its highest RssAnon, as far as it was looked at; 0: unknown
    bool too_long;            // it was ended for that
    char name[17];
};

// Runs the program to its end. Signals that somebody sends to this process go on to the program. False, with
// errno, if it could not be started.
bool recorded_run(const struct recorded_run *run, struct ending *ending);

#endif
