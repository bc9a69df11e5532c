// SPDX-License-Identifier: Apache-2.0
// Which parts of inherited blocks share each page, and who but the program may have written there.
#ifndef HEAPTAPE_PAGE_PARTS_H
#define HEAPTAPE_PAGE_PARTS_H

#include <stdbool.h>

#include "page_evidence.h"

enum ht_page_kind {
    HT_PAGE_QUIET,    // blocks fill it and no call met it: only the program can have written it
    HT_PAGE_HOLED,    // it has room that no live block explains, into which the allocator may write
    HT_PAGE_MET,      // a call made or ended a block on it
    HT_PAGE_UNKNOWN,  // neither shared nor exclusive, so nothing is known of writes
    HT_PAGE_KINDS
};

// A part is what of a live block lies on one page, unless it is all of that page.
struct ht_page_parts {
    uint32_t *first;  // of each page and one more: its parts are first[q] to first[q+1]-1, in order of birth
    uint32_t *block;  // of each part
    uint8_t *kind;    // enum ht_page_kind of each page
};

// False for want of memory; to be freed in any case.
bool ht_page_parts_make(const struct ht_inherited_pages *pages, struct ht_page_parts *parts);
void ht_page_parts_free(struct ht_page_parts *parts);

// Addresses count from the first page's begin.
static inline uint64_t ht_block_start(const struct ht_inherited_pages *pages, size_t block) {
    return (uint64_t)pages->page[block] * pages->page_bytes + pages->offset[block];
}

#endif
