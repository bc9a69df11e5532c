// What the program's memory looks like beside its calls, and the live blocks of 16 KiB and more.
#ifndef HEAPTAPE_MEMORY_H
#define HEAPTAPE_MEMORY_H

#include "state.h"

// memory.c
HIDDEN void memory_sample(struct thread_state *t, uint64_t stamp, bool final);
// A block is about to go of which so much was touched since it was allocated: no sample may have seen it.
HIDDEN void memory_sample_before_free(struct thread_state *t, uint64_t touched_bytes);
// Pages of a block that are resident, plus one; 0: unknown.
HIDDEN uint32_t memory_resident_pages(const void *block, size_t bytes);

// residency.c
// With a sample of memory: how far the live large blocks have been filled.
HIDDEN void residency_look(struct thread_state *t, uint64_t stamp);
HIDDEN void residency_after_fork(void);
HIDDEN uint32_t residency_pages(const void *block, size_t bytes);

// large.c
HIDDEN extern uint8_t large_filter[];
enum { LARGE_FILTER_BITS = 14 };
static inline bool large_maybe(const void *block) {
    return large_filter[(uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LARGE_FILTER_BITS)] != 0;
}
// Is this block to be looked at, when it is allocated and when it goes? One below 64 KiB is only where that
// costs little.
HIDDEN bool large_is_watched(size_t bytes, uint64_t stamp);
struct large_block {
    size_t bytes;
    uint32_t resident;  // pages of it that were resident when it was allocated, plus one; 0: unknown
    uint32_t told;      // pages that the log says were resident
};
HIDDEN void large_add(const void *block, struct large_block large);
// Takes a block out; one of no bytes if it is not there.
HIDDEN struct large_block large_remove(const void *block);
HIDDEN void large_after_fork(void);
// Copies some of the blocks that the log does not say to be full, from a place in the table on, and moves the
// place on: to 0 at the table's end.
struct large_copy {
    const void *block;
    struct large_block large;
};
HIDDEN size_t large_unfilled(size_t *place, struct large_copy *copy, size_t room);
// The block as it was copied has so many pages resident now, and the log will say so. False if it is no more.
HIDDEN bool large_tell(const struct large_copy *copy, uint32_t pages);
HIDDEN void large_each(void (*visit)(void *context, const void *block, size_t bytes), void *context);

#endif
