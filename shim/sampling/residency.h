// SPDX-License-Identifier: Apache-2.0
// How many pages of a large block are resident, and how far the live ones have been filled.
#ifndef HEAPTAPE_RESIDENCY_H
#define HEAPTAPE_RESIDENCY_H

#include "large_blocks.h"
#include "state.h"

// Pages of a block, or of a range, that are resident, plus one; 0: unknown.
HIDDEN uint32_t residency_count_pages(struct thread_state *t, const void *block, size_t bytes);
// The same of one that was just allocated, which is watched from now on.
HIDDEN uint32_t residency_at_birth(struct thread_state *t, const void *block, size_t bytes);
// The same as the block ends, or the program does, at that moment. Where they are is recorded, unless they are the first ones
// or as many as were recorded last.
HIDDEN uint32_t residency_at_end(struct thread_state *t, const void *block, const struct large_block *large,
                                 uint64_t stamp);
// With a sample of memory: how far the live large blocks have been filled.
HIDDEN void residency_probe(struct thread_state *t, uint64_t stamp);
HIDDEN void residency_after_fork(void);

#endif
