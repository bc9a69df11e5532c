// SPDX-License-Identifier: Apache-2.0
// Parts of blocks that are written alike: by size, and by whether a part is on the block's first page.
#ifndef HEAPTAPE_PART_CLASSES_H
#define HEAPTAPE_PART_CLASSES_H

#include "page_parts.h"

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
