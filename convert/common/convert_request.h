// SPDX-License-Identifier: Apache-2.0
// One conversion as the command line asks for it.
#ifndef HEAPTAPE_CONVERT_REQUEST_H
#define HEAPTAPE_CONVERT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

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
    bool anonymous;  // without what says which program it was
    bool follow;     // the log may still be written
    bool keeps_raw;  // a follower punches no holes
    // As part of heaptape record --convert: the log goes when its trace is complete, and the closing words are left to others.
    bool in_record;
    bool parent_is_followed;  // that of a forked process: what it handed on will be noted
    bool of_group;            // the log is of one process of a group, which may have made no call
    bool passing;             // the trace goes into another format: print nothing about it
};

#endif
