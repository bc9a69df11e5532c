// SPDX-License-Identifier: Apache-2.0
// Which pages ever held a block: a bit for each page of the address space.
#ifndef HEAPTAPE_PAGE_HISTORY_H
#define HEAPTAPE_PAGE_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "snapshot_rows.h"

// Addresses of a process have 47 bits.
#define HT_HISTORY_PAGES ((UINT64_C(1) << 47) / HT_SNAPSHOT_PAGE_BYTES)

struct ht_page_history {
    _Atomic uint64_t *bits;
};

// False, with errno: there is no memory.
bool ht_page_history_init(struct ht_page_history *history);
// A block of so many bytes lies there.
void ht_page_history_hold(const struct ht_page_history *history, uint64_t address, uint64_t bytes);
bool ht_page_history_held(const struct ht_page_history *history, uint64_t page);

#endif
