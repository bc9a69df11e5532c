// SPDX-License-Identifier: Apache-2.0
// Looks from outside at a child until it has ended: the same way whether it is recorded or not.
#ifndef HEAPTAPE_PROCESS_PEAK_H
#define HEAPTAPE_PROCESS_PEAK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_peak {
    pid_t pid;
    double for_s;    // so long it is looked at
    double limit_s;  // after that it is sent SIGTERM, then SIGKILL; 0: never
    int output;      // what comes from there is read, and forgotten; -1: none
    // What was found.
    uint64_t rss_bytes;  // the highest RssAnon, without pages of files: those of the log are such; 0: unknown
    bool too_long;       // it did not end before the limit
};

// Returns once it has ended or for_s have passed. It is still to be waited for.
void process_peak_watch(struct process_peak *watch);

#endif
