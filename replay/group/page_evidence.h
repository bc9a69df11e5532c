// SPDX-License-Identifier: Apache-2.0
// What is known of inherited blocks and of the pages that they lie on.
#ifndef HEAPTAPE_PAGE_EVIDENCE_H
#define HEAPTAPE_PAGE_EVIDENCE_H

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

#endif
