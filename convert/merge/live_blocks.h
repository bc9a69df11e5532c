// SPDX-License-Identifier: Apache-2.0
// The blocks that are live at one moment, by address, and the allocator's settings that the program made: what a fork hands on
// from one log to the next.
#ifndef HEAPTAPE_LIVE_BLOCKS_H
#define HEAPTAPE_LIVE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control_calls.h"
#include "site_collector.h"

struct heap_model;

struct live_block {
    uint64_t address, bytes;
};

// In order of birth: a replay that allocates them in that order places them much as the program did.
struct live_blocks {
    struct live_block *block;
    size_t count;
    uint32_t *site;    // of each its call site, by the log's number, 0 where unknown; NULL: none is known
    uint32_t *thread;  // of each, the heir's thread that made it; NULL: all are of one
    struct ht_control_settings settings;
    struct site_collector sites;  // what these numbers mean, as far as the heir's log does not say so
};

// What is live in a heap that was followed without being written. False for want of memory.
bool live_blocks_take(struct live_blocks *blocks, const struct heap_model *heap);

// Makes the blocks live in an empty heap, by one inherit event each, at the beginning of time: of the thread that made it, where
// that is said, else of this one. The settings after them are of this one.
// False for want of memory.
bool live_blocks_give(const struct live_blocks *blocks, struct heap_model *heap, uint32_t thread);

void live_blocks_free(struct live_blocks *blocks);

// ---- in a file, where those that a child inherited wait for its conversion ----

// After it follows what is stored, compressed: the blocks; where call sites are known, those of the blocks, four bytes each, and
// what they mean (site_store_make).
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
