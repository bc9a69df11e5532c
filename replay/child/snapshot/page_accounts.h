// SPDX-License-Identifier: Apache-2.0
// What resident memory consists of, as explain/accounts.py takes a snapshot apart, but without its rows: the sums alone.
#ifndef HEAPTAPE_PAGE_ACCOUNTS_H
#define HEAPTAPE_PAGE_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "page_history.h"
#include "resident_pages.h"

struct ht_account_slot;
struct ht_page_bits;

struct ht_page_accounts {
    struct ht_page_bits *bits;  // all 0 between two takings
    const struct ht_page_history *history;
    const struct ht_block_spacing *spacing;
    struct ht_resident_buffer *buffer;
};

// False, with errno: there is no memory.
bool ht_page_accounts_init(struct ht_page_accounts *accounts, const struct ht_page_history *history,
                           const struct ht_block_spacing *spacing, struct ht_resident_buffer *buffer);
// Of the blocks in the table. Returns 0, or errno where the kernel does not show which pages are resident.
int ht_page_accounts_take(struct ht_page_accounts *accounts, void *const *table,
                          const struct ht_account_slot *slots, uint64_t slots_count,
                          struct ht_stretch_accounts *found);

#endif
