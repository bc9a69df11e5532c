// SPDX-License-Identifier: Apache-2.0
// The blocks that are live while a form is written, and how much of them touch=recorded makes resident.
#ifndef HEAPTAPE_FORM_BLOCKS_H
#define HEAPTAPE_FORM_BLOCKS_H

#include "form_births.h"
#include "form_operation.h"
#include "form_state.h"

// The residency of smaller blocks is never known, and all their bytes are written.
#define HT_BLOCK_LARGE_BYTES 16384u

struct ht_live_blocks {
    struct ht_form_state *form;
    uint64_t bytes;
    uint64_t untouched_bytes;  // of them: whole pages that touch=recorded leaves alone
    uint64_t zeroed_bytes;     // pages that touch=recorded touches because the recording's calloc did
    // Pages that it touches of blocks of which only others show how much the program did.
    uint64_t unmeasured_bytes;
};

// Before an operation is followed: room for what is known of its block. Returns 0, or -1 with error, as the next.
int ht_live_make_room(struct ht_live_blocks *live, const struct ht_operation *op);
// Notes what is known of the block that the operation, which is no query, makes or ends.
int ht_live_know(struct ht_live_blocks *live, const struct ht_operation *op, const struct ht_birth *birth);
// Follows what is live; returns what was expected instead, if the trace cannot be replayed.
const char *ht_live_follow(struct ht_live_blocks *live, struct ht_operation *op,
                           const struct ht_op_shape *shape);
// So many pages of the slot's block are touched now that were not when it was allocated. live: struct ht_live_blocks.
void ht_live_touch(void *live, uint32_t slot, uint64_t pages);
// Whole pages of the slot's block are given back: written to or not, they hold nothing any more.
void ht_live_give_back(struct ht_live_blocks *live, uint32_t slot, uint64_t pages);

#endif
