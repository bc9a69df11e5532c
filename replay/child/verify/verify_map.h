// SPDX-License-Identifier: Apache-2.0
// Which addresses are live blocks: a tree of them ordered by address, to see at once that a new one overlaps
// another. Its nodes are the slots' own, so it needs no memory but the table of slots. The caller holds
// the lock.
#ifndef HEAPTAPE_VERIFY_MAP_H
#define HEAPTAPE_VERIFY_MAP_H

#include <stdint.h>

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
