// SPDX-License-Identifier: Apache-2.0
// What the trace's calls and those of the torture are held against alike: what blocks hold and where they lie, and where
// violations are written.
#ifndef HEAPTAPE_VERIFY_BLOCKS_H
#define HEAPTAPE_VERIFY_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "verify_findings.h"

// The pattern that verification writes into blocks: every 8 bytes differ with the block's seed and with their
// place in it, so that bytes of another block, of an earlier one in the same place, or moved bytes are wrong.
//
// Blocks below HT_PATTERN_WHOLE_BYTES are filled whole. Of larger ones, so that verification needs no more
// memory than a replay that touches what the program touched: the first HT_PATTERN_SPAN_BYTES of so many
// pages, and the block's last as many.
#define HT_PATTERN_WHOLE_BYTES 65536u
#define HT_PATTERN_SPAN_BYTES  64u

// The last HT_PATTERN_SPAN_BYTES of what malloc_usable_size gives beyond the block are filled too: programs
// write there.
struct ht_pattern {
    uint64_t seed;
    uint64_t bytes;   // of the block; 0: nothing of them is filled
    uint64_t pages;   // of a large one
    uint64_t usable;  // 0: not known
    bool sparse;      // filled as a large one, though it is not
};

void ht_pattern_fill(const struct ht_pattern *pattern, char *block);

// Fills the first so many pages, of which some are filled already.
void ht_pattern_extend(struct ht_pattern *pattern, char *block, uint64_t pages);

// Checks what is filled of the block's first `bytes`. True if it is as written; else what is wrong first.
bool ht_pattern_holds(const struct ht_pattern *pattern, const char *block, uint64_t bytes, uint64_t *offset,
                      uint8_t *expected, uint8_t *found);

// Searches a byte that is not 0. All of the block is read up to HT_ZEROS_WHOLE_BYTES; of a larger one
// whole pages at even distances, the last page and so many in all. True if there is none.
#define HT_ZEROS_WHOLE_BYTES (256ull << 20)
bool ht_all_zeros(const char *block, uint64_t bytes, uint64_t *offset, uint8_t *found);

// Counts a violation, and keeps it if it is one of the first.
void ht_verify_tell(struct ht_verify_findings *findings, const struct ht_violation *violation);
// Counts one like another that was told.
void ht_verify_count(struct ht_verify_findings *findings, enum ht_violation_kind kind);

// A block for which no alignment was asked is fit for any object of the standard types that is no larger.
uint64_t ht_verify_alignment(uint64_t bytes);

void ht_verify_raise(_Atomic uint64_t *most, uint64_t value);

// Which addresses are live blocks: a tree of them ordered by address, to see at once that a new one overlaps
// another. Its nodes are the slots' own, so it needs no memory but the table of slots. The caller holds
// the lock.
enum { HT_MAP_NONE = 0 };  // slot 0 is free(NULL)'s and never holds a block

struct ht_map_node {
    uint64_t start, bytes;  // of a block without bytes: 1, because its address is its own all the same
    uint32_t left, right;
};

struct ht_verify_map {
    uint32_t root;
};

// The node of a slot. Nodes lie in larger structs: the first one's, and how far they are apart.
struct ht_map_nodes {
    char *first;
    uint64_t stride;
};

// Adds the slot's node, whose start and bytes are set. Returns a slot whose block it overlaps, or
// HT_MAP_NONE; it is added all the same.
uint32_t ht_map_add(struct ht_verify_map *map, struct ht_map_nodes nodes, uint32_t slot);

// Takes out a node that is in the map.
void ht_map_remove(struct ht_verify_map *map, struct ht_map_nodes nodes, uint32_t slot);

#endif
