// SPDX-License-Identifier: Apache-2.0
// What of the program's anonymous memory it did not get from malloc: what it mapped for itself, its objects'
// data, its stacks.
#ifndef HEAPTAPE_OWN_MEMORY_H
#define HEAPTAPE_OWN_MEMORY_H

#include "own_ranges.h"
#include "state.h"

// Once, before the program's first allocation.
HIDDEN void own_start(void);
HIDDEN void own_after_fork(void);
// A sample that asks: RssAnon, whether that is more than ever before, and whether it is the last sample.
struct own_question {
    uint64_t stamp, anonymous_bytes;
    bool is_peak, final;
};
// Bytes of it that are resident then. Counting them takes a while: `fresh` is whether it was done, or an older figure
// is used.
HIDDEN uint64_t own_bytes(const struct own_question *question, bool *fresh);

#endif
