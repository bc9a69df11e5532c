// SPDX-License-Identifier: Apache-2.0
// Live blocks in a file, where those that a child inherited wait for its conversion.
#ifndef HEAPTAPE_BLOCK_STORE_H
#define HEAPTAPE_BLOCK_STORE_H

#include "live_blocks.h"

// Behind it what is stored, compressed: the blocks; where call sites are known, those of the blocks, four bytes each, and what
// they mean (site_store.h).
struct block_entry {
    uint64_t stamp, blocks, site_bytes, stored_bytes;
    struct ht_control_settings settings;
    uint64_t checksum;  // of those before and of what is stored
};

// Writes an entry and what is stored; *end is where it begins, and then where it ends. False with errno.
bool block_store_put(int fd, uint64_t stamp, const struct live_blocks *blocks, uint64_t *end);
// What is stored at the offset, behind its entry, which has been read; blocks to be freed by the caller. False for want of
// memory, or if it is damaged.
bool block_store_read(int fd, const struct block_entry *entry, uint64_t offset, struct live_blocks *blocks);

#endif
