// SPDX-License-Identifier: Apache-2.0
// What a forked child had from the start: found in its parent's log, and in the parent's parent's.
#ifndef HEAPTAPE_INHERITANCE_H
#define HEAPTAPE_INHERITANCE_H

#include "merge.h"

// Holds the message of an error, and what it means.
enum { INHERITANCE_WARNING_BYTES = sizeof((struct ht_error *)0)->message + 256 };

// Fills `blocks`, to be freed by the caller, with what was live in the child when it began. parent_path:
// NULL, or the parent's log; then one that cannot be used is an error. Otherwise it is searched in the
// child's folder, and if it, or an elder's, cannot be used, `warning` has the reason, and what was allocated
// in that process is missing from the blocks. No warning: "". Returns 0 or -1 with error.
int inheritance_find(const struct ht_raw_log *child, const char *parent_path, struct live_blocks *blocks,
                     char warning[INHERITANCE_WARNING_BYTES], const struct merge_progress *progress,
                     struct ht_error *error);

// Can a log hand on what was live when the child was forked from its process? It has to have the child's clock, and to have been
// recorded then. Returns 0 or -1 with error.
int inheritance_check_fork(const struct ht_raw_header *child, const struct ht_raw_header *parent,
                           const char *path, struct ht_error *error);

// Before it: does the child's parent have a follower that has not come to the fork yet?
struct inheritance_wait {
    bool for_parent;  // there will be one, even if it is not to be seen yet
    bool progresses;  // it has moved since it was last asked
    uint64_t passed_stamp;
};
bool inheritance_must_wait(const struct ht_raw_log *child, struct inheritance_wait *wait);

#endif
