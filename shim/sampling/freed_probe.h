// SPDX-License-Identifier: Apache-2.0
// A probe of some of the blocks that are freed: had the program just used them, or were they out of its
// caches? A replay needs to know, because the call that frees a cold block pays for fetching what it reads of
// it.
#ifndef HEAPTAPE_FREED_PROBE_H
#define HEAPTAPE_FREED_PROBE_H

#include "chunks.h"

// Measures what a probe of memory that is in the cache shows, and notes the least so far in the header.
HIDDEN void freed_probe_measure_floor(struct ht_raw_header *header);

// Before the record of a free, which alone may be probed: before anything fetches the block.
HIDDEN bool room_for_free_slowly(struct thread_state *t, const void *block);

static inline bool room_for_free(struct thread_state *t, const void *block) {
    return likely(t->cursor.at < t->full_or_probe_at) || room_for_free_slowly(t, block);
}

#endif
