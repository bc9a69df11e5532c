// SPDX-License-Identifier: Apache-2.0
// What an allocator keeps for itself beside a block, measured on blocks that lie next to each other: the accounts of a
// heap tell it from holes, in which the allocator could place a block.
#ifndef HEAPTAPE_BLOCK_SPACING_H
#define HEAPTAPE_BLOCK_SPACING_H

#include "allocator.h"
#include "snapshot_rows.h"

// Allocates some thousand blocks, up to 1 MiB each, and leaves them.
struct ht_block_spacing ht_block_spacing_measure(const struct ht_server *server);

// The bytes beside a block of so many usable bytes that the allocator keeps: of its first pages from begin up to the
// block, of its last ones from its end up to end.
struct ht_block_margin {
    uint64_t begin, end;
};
struct ht_block_margin ht_block_margin(const struct ht_block_spacing *spacing, uint64_t address,
                                       uint64_t usable_bytes);

#endif
