// SPDX-License-Identifier: Apache-2.0
#include "page_history.h"

#include <stddef.h>

#include "far_table.h"

// A table of 4 GiB, of which a page is real for each 128 MiB of heap.
bool ht_page_history_init(struct ht_page_history *history) {
    history->bits = ht_far_table(HT_HISTORY_PAGES / 8);
    return history->bits != NULL;
}

void ht_page_history_hold(const struct ht_page_history *history, uint64_t address, uint64_t bytes) {
    uint64_t page = address / HT_SNAPSHOT_PAGE_BYTES,
             end = (address + bytes - 1) / HT_SNAPSHOT_PAGE_BYTES + 1;
    if (!bytes || end > HT_HISTORY_PAGES) return;
    while (page < end) {
        uint64_t first = page % 64, count = end - page < 64 - first ? end - page : 64 - first;
        uint64_t bits = UINT64_MAX >> (64 - count) << first;
        _Atomic uint64_t *word = &history->bits[page / 64];
        if ((atomic_load_explicit(word, memory_order_relaxed) & bits) != bits) atomic_fetch_or(word, bits);
        page += count;
    }
}

bool ht_page_history_held(const struct ht_page_history *history, uint64_t page) {
    return page < HT_HISTORY_PAGES && atomic_load(&history->bits[page / 64]) >> page % 64 & 1;
}
