// SPDX-License-Identifier: Apache-2.0
// What is known of inherited blocks and of the pages that they lie on, and which parts of blocks share each page.
#ifndef HEAPTAPE_PAGE_PARTS_H
#define HEAPTAPE_PAGE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One process at one moment, by inherited block and by page (format/group/group_trace.h has what these arrays mean).
struct ht_inherited_pages {
    size_t blocks;
    const uint64_t *bytes;   // of each block
    const uint32_t *page;    // of its first byte
    const uint16_t *offset;  // in that page
    const uint8_t *ended;    // 1: it does not live at that moment any more
    size_t pages;
    const uint8_t *state;  // enum ht_page_state, and HT_PAGE_CALLED
    uint32_t page_bytes;   // no less than 1
};

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

// Parts of blocks that are written alike: by size, and by whether a part is on the block's first page.

// A size that is seen often is a class of its own, below a limit; the others go by half octaves.
struct ht_size_classes {
    uint32_t *exact;  // in ascending order
    uint32_t exacts;
};

struct ht_classed_parts {
    const struct ht_inherited_pages *pages;
    struct ht_page_parts parts;
    uint16_t *class;  // of each part
};

// Counts the sizes of parts on pages that tell of writes; *often is made at the first call and is to be freed. False for want of
// memory.
bool ht_sizes_count(const struct ht_classed_parts *classed, uint32_t **often);
bool ht_size_classes_choose(struct ht_size_classes *classes, const uint32_t *often);
uint32_t ht_part_classes(const struct ht_size_classes *classes);
// Sets class. False for want of memory.
bool ht_part_classes_give(const struct ht_size_classes *classes, struct ht_classed_parts *classed);
void ht_classed_parts_free(struct ht_classed_parts *classed);

bool ht_page_copied(const struct ht_classed_parts *classed, size_t page);
// Whether the page has parts whose writing its state tells of.
bool ht_page_tells(const struct ht_classed_parts *classed, size_t page);
// Whether the second page's blocks were born after the first's, with few between.
bool ht_pages_consecutive(const struct ht_page_parts *parts, size_t one, size_t two);

#endif
