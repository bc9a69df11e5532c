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
struct own_answer {
    uint64_t bytes;  // of the program's own that are resident then
    bool fresh;      // they were counted now, which takes a while; else they are an older figure
    bool pieces;     // where the rest lies is known, too. Until own_pieces_done nobody else can ask
};
HIDDEN struct own_answer own_bytes(const struct own_question *question);
HIDDEN void own_pieces_done(void);

// Writes where the rest lies, before the sample that has the same stamp.
HIDDEN void heap_pieces_put(struct thread_state *t, uint64_t stamp);
// In their place, where nothing was counted: how much the program has mapped for itself at most.
HIDDEN void heap_pieces_put_bound(struct thread_state *t, uint64_t stamp, uint64_t mapped_bytes);

#endif
