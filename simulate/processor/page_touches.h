// SPDX-License-Identifier: Apache-2.0
// Page faults of a simulated program: the first access to a page of its memory since the page was mapped or
// given back.
#ifndef HEAPTAPE_PAGE_TOUCHES_H
#define HEAPTAPE_PAGE_TOUCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HT_TOUCH_LEAF_BITS = 15,  // pages of a leaf: 128 MiB of addresses
    HT_TOUCH_ROOT_BITS = 20,  // leaves: all addresses of 47 bits
};

struct ht_page_touches {
    void *(*new_zeroed)(size_t bytes);  // memory for a leaf; doesn't return without
    uint8_t *leaf[1 << HT_TOUCH_ROOT_BITS];
};

// Whether the page, by its address >> HT_PAGE_SHIFT, was not touched before.
bool ht_touch_page(struct ht_page_touches *touches, uint64_t page);
// The pages that lie wholly in the range are fresh again.
void ht_forget_pages(struct ht_page_touches *touches, uint64_t address, uint64_t bytes);

// The kernel moves a mapping: a page at the new place counts as touched if the one at the old place was. Both addresses
// begin a page.
void ht_move_pages(struct ht_page_touches *touches, uint64_t from, uint64_t to, uint64_t bytes);

#endif
