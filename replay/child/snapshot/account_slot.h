// SPDX-License-Identifier: Apache-2.0
// What the accounting and the snapshot pass know of a slot's block.
#ifndef HEAPTAPE_ACCOUNT_SLOT_H
#define HEAPTAPE_ACCOUNT_SLOT_H

#include <stdint.h>

struct ht_account_slot {
    uint64_t requested_bytes, usable_bytes;  // of the live block; usable: 0, nothing is live
    uint64_t untouched_bytes;                // of usable_bytes: what the replay did not write to, by page
};

#endif
