// SPDX-License-Identifier: Apache-2.0
// One process of a group, and the state of the group's conversion, which goes on from process to process.
#ifndef HEAPTAPE_GROUP_MEMBER_H
#define HEAPTAPE_GROUP_MEMBER_H

#include "convert_request.h"
#include "group_content.h"
#include "group_logs.h"
#include "heap_ranges.h"
#include "trace_writer.h"

// What is known of a process beside its log.
struct group_process_state {
    bool exited;             // by itself, so that its log says when
    bool forked;             // its parent's merge has come to the fork
    uint64_t blocks_offset;  // what it inherited, in the temporary file
};

struct group_run {
    const struct convert_request *request;
    struct group_logs logs;
    struct ht_group_content content;
    struct group_process_state *state;  // of each process
    struct heap_ranges *heap;           // of each process, at each moment
    struct ht_trace_writer *writer;     // of the group
    int blocks_fd;                      // the temporary file of what children inherit
    uint64_t blocks_end;
    uint64_t bytes_done, bytes_total;  // of the logs, for progress
    uint64_t events, calls;
    struct merge_progress progress;
};

static inline const struct ht_group_snapshot *group_snapshot(const struct group_run *run, uint32_t moment) {
    return &run->logs.snapshots.snapshot[moment];
}

// Converts one process, whose parent has been: its trace, layout and page states go into the group's. Returns 0, or -1 with
// error.
int group_member_convert(struct group_run *run, uint32_t process, struct ht_error *error);

#endif
