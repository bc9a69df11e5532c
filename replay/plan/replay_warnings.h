// SPDX-License-Identifier: Apache-2.0
// What runs, trace or allocators show that makes figures doubtful, each with what to do about it. The judge has more of them
// (analysis/heaptape/judge/warnings.py).
#ifndef HEAPTAPE_REPLAY_WARNINGS_H
#define HEAPTAPE_REPLAY_WARNINGS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "allocator_choice.h"
#include "replay_job.h"

// Their names in JSON (ht_warning_names) are for scripts and stay.
enum ht_warning_kind {
    HT_WARNING_CYCLE_COUNTER,  // an allocator reads it, which virtual time does not reach everywhere
    HT_WARNING_KNOWN_FAULT,    // of an allocator: calls went wrong as is known of its version
    HT_WARNING_MOSTLY_UNSEEN,  // most of the program's memory is not from malloc
    HT_WARNING_SETTINGS,       // the program's allocator was set to what no replay has
    HT_WARNING_UNKNOWN_HEAP,   // how much of the recorded program's memory is its heap
    HT_WARNING_SWOLLEN_HEAP,   // it held many times its blocks
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

// What is known to be wrong with the version of an allocator that takes part (struct ht_fault): calls that it
// explains do not make a run fail, and are distinguished.

// The alignments that the choice, once described, is known to get wrong; none: 0 and 0.
struct ht_known_alignments ht_known_alignments_of(const struct ht_choice *choice);

// Adds to a result: known_failures, how many calls or findings of verification a known fault explains, and
// known_faults, the faults' sentences.
void ht_known_faults_add(json_t *run, const struct ht_choice *choice, uint64_t known_failures);

// Warns of them, once for each choice.
void ht_known_faults_warn(struct ht_warnings *warnings, const struct ht_choice *choice,
                          uint64_t known_failures);

#endif
