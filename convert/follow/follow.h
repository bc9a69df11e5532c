// SPDX-License-Identifier: Apache-2.0
// heaptape convert --follow: converts a log while its program writes it, punches holes into what it has read,
// and leaves at every moment a readable trace and what another process needs to go on
// (docs/reference/convert.md).
#ifndef HEAPTAPE_FOLLOW_H
#define HEAPTAPE_FOLLOW_H

#include <signal.h>

#include "convert_request.h"
#include "error.h"
#include "heap_share.h"

struct follow_ending {
    bool complete;  // else it was stopped, and can be resumed
    bool empty;     // there was no call in the log, or it has gone: there is nothing to go on with
    uint64_t events, file_bytes, late_records, cpu_ns;
    struct ht_heap_share share;  // of a complete one
};

// stop: set by a signal handler to end it early. Returns 0 or -1 with error.
int follow_log(const struct convert_request *request, const volatile sig_atomic_t *stop,
               struct follow_ending *ending, struct ht_error *error);

// As a command: follows to the end of the log, or until SIGINT, SIGTERM or SIGHUP. Returns the exit status.
int follow_run(const struct convert_request *request);

#endif
