// SPDX-License-Identifier: Apache-2.0
// What makes figures doubtful, each with what to do about it.
#ifndef HEAPTAPE_REPLAY_WARNINGS_H
#define HEAPTAPE_REPLAY_WARNINGS_H

#include <stddef.h>
#include <stdio.h>

// Their names in JSON (ht_warning_names) are for scripts and stay.
enum ht_warning_kind {
    HT_WARNING_BUSY,             // other processes took processor time
    HT_WARNING_STEAL,            // the hypervisor did
    HT_WARNING_THROTTLED,        // the control group's quota did
    HT_WARNING_SWAP,             // the machine swapped
    HT_WARNING_GOVERNOR,         // the processor's clock is not held up
    HT_WARNING_TURBO,            // nor kept from rising
    HT_WARNING_THP,              // huge pages other than where recorded
    HT_WARNING_FEW_EVENTS,       // the trace is very short
    HT_WARNING_SHORT_RUN,        // so is a run
    HT_WARNING_LOSSY_TRACE,      // the recording missed something
    HT_WARNING_DROPPED,          // of the timed readings
    HT_WARNING_HARNESS,          // replaying takes longer than the allocator
    HT_WARNING_FEW_ROUNDS,       // too few to resample
    HT_WARNING_CONTROL,          // the baseline differs from itself
    HT_WARNING_BUDGET,           // spent before all was resolved
    HT_WARNING_CYCLE_COUNTER,    // an allocator reads it, which virtual time does not reach everywhere
    HT_WARNING_NO_REPEATS,       // --repeats could not be had
    HT_WARNING_KNOWN_FAULT,      // of an allocator: calls went wrong as is known of its version
    HT_WARNING_MOSTLY_UNSEEN,    // most of the program's memory is not from malloc
    HT_WARNING_SKIPPED_QUERIES,  // of usable sizes, which an allocator does not know
    HT_WARNING_NO_CXX_LIBRARY,   // operators were replayed as malloc and free
    HT_WARNING_FRESH_HEAP,       // a slice without what led to its first blocks
    HT_WARNING_ZEROED,           // calloc wrote memory when recorded that the program may not have touched
    HT_WARNING_SETTINGS,         // the program's allocator was set to what no replay has
    HT_WARNING_UNWATCHED,        // peaks of RSS within calls were not seen
    HT_WARNING_COPYING,          // such a peak hangs on how long copying takes, which is no trace time
    HT_WARNING_UNMEASURED,       // how much of large blocks was touched is taken from others
    HT_WARNING_UNKNOWN_HEAP,     // how much of the recorded program's memory is its heap
    HT_WARNING_SWOLLEN_HEAP,     // it held many times its blocks
    HT_WARNINGS
};
extern const char *const ht_warning_names[HT_WARNINGS];

enum { HT_WARNINGS_MAX = 64 };

struct ht_warning {
    enum ht_warning_kind kind;
    char message[640], remedy[256];
};

struct ht_warnings {
    struct ht_warning list[HT_WARNINGS_MAX];
    size_t count;
};

// Adds one; where there is no room for more, it is not added.
void ht_warn(struct ht_warnings *warnings, enum ht_warning_kind kind, const char *remedy, const char *format,
             ...) __attribute__((format(printf, 4, 5)));

// One line each, from the one of that index on.
void ht_warnings_print(FILE *out, const struct ht_warnings *warnings, size_t first);

#endif
