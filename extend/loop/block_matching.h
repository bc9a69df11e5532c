// SPDX-License-Identifier: Apache-2.0
// Who takes whose place when a stretch of a trace is repeated: each block that is live at its beginning is played, in the next
// repetition, by one of those that are live at its end. Both lists have a block that outlives the stretch.
//
// Blocks of one kind, size class and thread are matched by rank of age, so that what is freed at some age is freed at
// that age again. What is then over is matched regardless of the thread, and then by size. In the end only as many are without
// a partner as one list is longer than the other, and those are all blocks that the stretch frees (their frees are left out of
// the repetitions), or all blocks that it makes (they are left out): so each repetition frees as many blocks as it makes.
#ifndef HEAPTAPE_BLOCK_MATCHING_H
#define HEAPTAPE_BLOCK_MATCHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MATCH_NONE UINT32_MAX

struct match_block {
    uint64_t birth, bytes;
    uint32_t slot, thread;  // that made it
    uint32_t kind;          // which functions may free it
    bool turns;             // live at the beginning: it ends in the stretch; at the end: it was made there
    bool resized;           // it outlives the stretch, but was reallocated
    bool lasts;             // of what is live at the end: nobody frees it again, so that live bytes grow
    uint32_t same;          // the place of the same object in the other list, if it does not turn
    uint32_t partner;       // in the other list
};

struct matching {
    struct match_block *before, *after;  // live at the stretch's beginning, and at its end
    size_t before_count, after_count;
    // Found by match_blocks: how many were matched within class and thread, within the class, by size alone; and not at all.
    uint64_t by_thread, by_class, by_size;
    uint64_t unmatched_before, unmatched_after;
    uint64_t lasting;  // by match_grow
};

// The class that blocks are matched in: 16 bytes wide up to 1 KiB, then 16 to a power of two, from 64 KiB on 64.
unsigned match_class(uint64_t bytes);

// False for want of memory.
bool match_blocks(struct matching *matching);

// Lets live bytes grow by so many with each repetition: first what is unmatched is made after all, then frees are left out.
// Returns by how many they grow then.
uint64_t match_grow(struct matching *matching, uint64_t bytes_per_loop);

// Live bytes at the end of so many repetitions, live[0] at the end of the stretch. False for want of memory.
bool match_live_bytes(const struct matching *matching, double *live, size_t loops);

void matching_free(struct matching *matching);

#endif
