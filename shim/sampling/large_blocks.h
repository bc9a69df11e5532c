// SPDX-License-Identifier: Apache-2.0
// The live blocks of 16 KiB and more.
#ifndef HEAPTAPE_LARGE_BLOCKS_H
#define HEAPTAPE_LARGE_BLOCKS_H

#include "state.h"

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
// Pages that a block lies in.
HIDDEN uint32_t large_spanned_pages(const void *block, size_t bytes);
HIDDEN void large_after_fork(void);
// Copies some of the blocks that are not full by what was recorded, from a place in the table on, and moves
// the place on: to 0 at the table's end. One that has not been reported for a while is left out three times of four.
struct large_copy {
    const void *block;
    struct large_block large;
};
HIDDEN size_t large_unfilled(size_t *place, struct large_copy *copy, size_t room);
// The block as it was copied has so many pages resident now, and that will be recorded. False if it is no
// more.
HIDDEN bool large_report(const struct large_copy *copy, uint32_t pages);
// Memory from there on was given back: the block that it seems to be all of is watched as if it were new.
HIDDEN void large_emptied(const void *from);
HIDDEN void large_each(void (*visit)(void *context, const void *block, const struct large_block *large),
                       void *context);

#endif
