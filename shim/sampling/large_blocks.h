// SPDX-License-Identifier: Apache-2.0
// The live blocks of 16 KiB and more: which of them have their residency measured, how many pages of them are resident, and how
// far they have been filled.
#ifndef HEAPTAPE_LARGE_BLOCKS_H
#define HEAPTAPE_LARGE_BLOCKS_H

#include "sparse_stamps.h"
#include "state.h"

// ---- which are measured ----

// Even to ask takes a stamp. A process with one thread, whose calls have none, asks for one large block in so many where
// the last was not measured; for more, or a larger one, where the coarse clock has ticked.
struct watch_skips {
    uint32_t left;       // large blocks that pass unasked
    size_t below_bytes;  // if they are smaller
};
extern HIDDEN struct watch_skips watch_skips;

// Is it to be asked whether this large block is measured? If not, it counts as passed.
static inline bool watch_is_asked(size_t bytes) {
    if (!watch_skips.left || bytes >= watch_skips.below_bytes || !is_within_tick()) return true;
    watch_skips.left--;
    return false;
}

// ---- the table ----

HIDDEN extern uint8_t large_filter[];
enum { LARGE_FILTER_BITS = 14 };
static inline bool large_maybe(const void *block) {
    return large_filter[(uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LARGE_FILTER_BITS)] != 0;
}
// Is the residency of this block to be measured, when it is allocated and when it goes? Where that costs little.
HIDDEN bool large_is_watched(size_t bytes, uint64_t stamp);
struct large_block {
    size_t bytes;
    uint32_t resident;  // pages of it that were resident when it was allocated, plus one; 0: unknown
    uint32_t reported;  // resident pages that the log has last been given
    uint32_t passes;    // of large_unfilled over it since then
};
HIDDEN void large_add(const void *block, struct large_block large);
// Takes a block out; one of no bytes if it is not there.
HIDDEN struct large_block large_remove(const void *block);
// Memory from there on was given back: the block that it seems to be all of is watched as if it were new.
HIDDEN void large_emptied(const void *from);
// In a forked child, before its first recording.
HIDDEN void large_after_fork(void);

// ---- what is resident ----

// Pages of a block, or of a range, that are resident, plus one; 0: unknown.
HIDDEN uint32_t residency_count_pages(struct thread_state *t, const void *block, size_t bytes);
// Counts those of one that was just allocated, which is watched from now on.
HIDDEN uint32_t residency_at_birth(struct thread_state *t, const void *block, size_t bytes);
// Counts them as the block ends, or the program does, at that moment. It is recorded where they are, unless they are the first
// ones or as many as were recorded last.
HIDDEN uint32_t residency_at_end(struct thread_state *t, const void *block, const struct large_block *large,
                                 uint64_t stamp);
// Records, with a sample of memory, how far the live large blocks have been filled.
HIDDEN void residency_probe(struct thread_state *t, uint64_t stamp);
// Records, as the program ends, those of all live blocks.
HIDDEN void residency_at_exit(struct thread_state *t);

#endif
