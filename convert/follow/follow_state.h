// SPDX-License-Identifier: Apache-2.0
// What a follower must know to go on where another has stopped, or was killed: TRACE.state beside
// TRACE.partial (docs/reference/convert.md). It grows with the live blocks and with the threads, not with the log.
// What lives as long as a merge input, a stream or the heap, and affects the result, belongs in it: test_follow.c ends followers
// at random moments and compares.
#ifndef HEAPTAPE_FOLLOW_STATE_H
#define HEAPTAPE_FOLLOW_STATE_H

#include "live_streams.h"
#include "merge_inside.h"
#include "trace_writer.h"

// How the trace is written, and how far it is.
struct follow_position {
    uint32_t time_unit_ns;
    int level;
    struct ht_clock_pair clock_pair;  // which gives the times, with the log's first one
    struct ht_trace_position trace;
    uint64_t fork_file_bytes;
    uint64_t horizon;
    bool has_holes;  // holes were punched into the log for this trace
};

// Writes it beside its final name, syncs, renames. *bytes: how long it is. Returns 0 or -1 with error.
int follow_state_save(const char *path, const struct ht_raw_log *log, const struct follow_position *position,
                      const struct merge *merge, const struct live_streams *live, uint64_t *bytes,
                      struct ht_error *error);

struct follow_state;
// Opens and checks a state and reads its position. NULL with error.
struct follow_state *follow_state_open(const char *path, const struct ht_raw_log *log,
                                       struct follow_position *position, struct ht_error *error);
// Fills a merge that has just begun, and its streams. Returns 0 or -1 with error.
int follow_state_restore(struct follow_state *state, struct merge *merge, struct live_streams *live,
                         struct ht_error *error);
void follow_state_close(struct follow_state *state);

#endif
