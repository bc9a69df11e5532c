// SPDX-License-Identifier: Apache-2.0
// One conversion as the command line asks for it, and what it says to its user.
#ifndef HEAPTAPE_CONVERT_REQUEST_H
#define HEAPTAPE_CONVERT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "merge.h"
#include "talk.h"

struct convert_request {
    const char *input, *output;
    const char *parent;  // of a raw log; NULL: searched for
    const char *member;  // of a zip; NULL: its only one
    int level;
    uint32_t time_unit_ns;
    bool given_level, given_time_unit;  // they are no defaults
    uint64_t pid;
    uint64_t checkpoint_bytes;  // of a follower: how often it keeps its state; 0: as it likes
    bool pid_wanted, no_parent, lenient, quiet;
    bool no_names;   // of call sites
    bool follow;     // the log may still be written
    bool keeps_raw;  // a follower punches no holes
    // As part of heaptape record --convert: the log goes when its trace is complete, and the closing words are left to others.
    bool in_record;
    bool parent_is_followed;  // that of a forked process: what it handed on will be noted
    bool of_group;            // the log is of one process of a group, which may have made no call
    bool passing;             // the trace goes into another format: print nothing about it
};

// As struct merge_progress wants it; context is a struct ht_progress. total 0: unknown.
void convert_show_progress(void *context, uint64_t done, uint64_t total, uint64_t events);

// A warning, with -q as well, where most of the program's memory is not from malloc.
void convert_warn_of_unseen(const char *output, const struct merge_totals *totals, const char *inside);
// skipped: lines or records that --lenient passed over.
void convert_say_result(const char *output, const struct merge_totals *totals, uint64_t file_bytes,
                        double seconds, uint64_t skipped);

#endif
