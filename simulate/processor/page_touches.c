// SPDX-License-Identifier: Apache-2.0
#include "page_touches.h"

#include "processor.h"

enum { LEAF_PAGES = 1 << HT_TOUCH_LEAF_BITS, LEAF_BYTES = LEAF_PAGES / 8 };

bool ht_touch_page(struct ht_page_touches *touches, uint64_t page) {
    uint64_t at = page >> HT_TOUCH_LEAF_BITS & ((1 << HT_TOUCH_ROOT_BITS) - 1);
    if (!touches->leaf[at]) touches->leaf[at] = touches->new_zeroed(LEAF_BYTES);
    uint8_t *byte = touches->leaf[at] + (page % LEAF_PAGES) / 8, bit = (uint8_t)(1 << page % 8);
    bool fresh = !(*byte & bit);
    *byte |= bit;
    return fresh;
}

void ht_forget_pages(struct ht_page_touches *touches, uint64_t address, uint64_t bytes) {
    const uint64_t page_bytes = 1 << HT_PAGE_SHIFT;
    uint64_t page = (address + page_bytes - 1) >> HT_PAGE_SHIFT, end = (address + bytes) >> HT_PAGE_SHIFT;
    while (page < end) {
        uint64_t next = (page | (LEAF_PAGES - 1)) + 1;
        if (next > end) next = end;
        uint8_t *leaf = touches->leaf[page >> HT_TOUCH_LEAF_BITS & ((1 << HT_TOUCH_ROOT_BITS) - 1)];
        for (; leaf && page < next; page++) leaf[page % LEAF_PAGES / 8] &= (uint8_t)~(1 << page % 8);
        page = next;
    }
}

static bool was_touched(const struct ht_page_touches *touches, uint64_t page) {
    const uint8_t *leaf = touches->leaf[page >> HT_TOUCH_LEAF_BITS & ((1 << HT_TOUCH_ROOT_BITS) - 1)];
    return leaf && leaf[page % LEAF_PAGES / 8] >> page % 8 & 1;
}

void ht_move_pages(struct ht_page_touches *touches, uint64_t from, uint64_t to, uint64_t bytes) {
    ht_forget_pages(touches, to, bytes);
    for (uint64_t at = 0; at < bytes; at += 1 << HT_PAGE_SHIFT) {
        if (was_touched(touches, (from + at) >> HT_PAGE_SHIFT))
            ht_touch_page(touches, (to + at) >> HT_PAGE_SHIFT);
    }
}
