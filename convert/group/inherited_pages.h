// SPDX-License-Identifier: Apache-2.0
// The pages on which what a process inherited lay: their numbers, and whether its calls have used them since.
#ifndef HEAPTAPE_INHERITED_PAGES_H
#define HEAPTAPE_INHERITED_PAGES_H

#include "group_snapshot.h"
#include "group_trace.h"
#include "live_blocks.h"

// Pages next to each other.
struct page_run {
    uint64_t first;  // address over the page's size
    uint64_t pages;
    uint32_t number;  // of the first one
};

struct inherited_pages {
    uint32_t page_bytes;
    struct page_run *run;  // by address
    size_t runs;
    struct live_block *block;  // by address
    size_t blocks;
    struct ht_group_layout layout;
    bool *called;  // of each number
};

// NULL, or what is wrong; to be freed in any case.
const char *inherited_pages_make(struct inherited_pages *pages, const struct live_blocks *blocks,
                                 uint32_t page_bytes);
void inherited_pages_free(struct inherited_pages *pages);

// A call has made a block there.
void inherited_pages_use(struct inherited_pages *pages, uint64_t address, uint64_t bytes);
// A call has ended the block at that address: of consequence if it was inherited.
void inherited_pages_end(struct inherited_pages *pages, uint64_t address);

// A byte for each number, to be freed by the caller: what it is like in the snapshot of its process, and whether it was used.
// NULL for want of memory.
uint8_t *inherited_pages_states(const struct inherited_pages *pages, const struct ht_group_member *member);

#endif
