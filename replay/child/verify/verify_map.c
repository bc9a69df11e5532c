// SPDX-License-Identifier: Apache-2.0
// A treap: a search tree by address and a heap by a hash of the slot, which keeps it shallow whatever order
// the addresses come in. Blocks with the same address are distinguished by slot.
#include "verify_map.h"

#include <assert.h>
#include <stdbool.h>

static struct ht_map_node *node_of(struct ht_map_nodes nodes, uint32_t slot) {
    return (struct ht_map_node *)(nodes.first + nodes.stride * slot);
}

static uint32_t priority(uint32_t slot) {
    uint64_t mixed = (slot + 1) * 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ull;
    return (uint32_t)(mixed >> 32);
}

// Whether slot a comes before slot b.
static bool before(struct ht_map_nodes nodes, uint32_t a, uint32_t b) {
    uint64_t start_a = node_of(nodes, a)->start, start_b = node_of(nodes, b)->start;
    return start_a != start_b ? start_a < start_b : a < b;
}

static bool above(uint32_t a, uint32_t b) {
    uint32_t priority_a = priority(a), priority_b = priority(b);
    return priority_a != priority_b ? priority_a > priority_b : a > b;
}

// Those before `slot` go to *low, the others to *high.
static void split(struct ht_map_nodes nodes, uint32_t tree, uint32_t slot, uint32_t *low, uint32_t *high) {
    while (tree != HT_MAP_NONE) {
        struct ht_map_node *node = node_of(nodes, tree);
        if (before(nodes, tree, slot)) {
            *low = tree;
            low = &node->right;
            tree = node->right;
        } else {
            *high = tree;
            high = &node->left;
            tree = node->left;
        }
    }
    *low = *high = HT_MAP_NONE;
}

// All of low come before all of high.
static void merge(struct ht_map_nodes nodes, uint32_t low, uint32_t high, uint32_t *tree) {
    while (low != HT_MAP_NONE && high != HT_MAP_NONE) {
        if (above(low, high)) {
            *tree = low;
            tree = &node_of(nodes, low)->right;
            low = *tree;
        } else {
            *tree = high;
            tree = &node_of(nodes, high)->left;
            high = *tree;
        }
    }
    *tree = low != HT_MAP_NONE ? low : high;
}

// Where nothing in the map overlapped, the neighbours are all that a new block can overlap. Where something
// did, that was reported already.
static uint32_t overlapped(struct ht_verify_map *map, struct ht_map_nodes nodes, uint32_t slot) {
    struct ht_map_node *mine = node_of(nodes, slot);
    uint32_t previous = HT_MAP_NONE, next = HT_MAP_NONE;
    for (uint32_t at = map->root; at != HT_MAP_NONE;) {
        if (before(nodes, at, slot)) {
            previous = at;
            at = node_of(nodes, at)->right;
        } else {
            next = at;
            at = node_of(nodes, at)->left;
        }
    }
    if (previous != HT_MAP_NONE) {
        struct ht_map_node *node = node_of(nodes, previous);
        if (mine->start - node->start < node->bytes) return previous;
    }
    if (next != HT_MAP_NONE && node_of(nodes, next)->start - mine->start < mine->bytes) return next;
    return HT_MAP_NONE;
}

uint32_t ht_map_add(struct ht_verify_map *map, struct ht_map_nodes nodes, uint32_t slot) {
    struct ht_map_node *mine = node_of(nodes, slot);
    uint32_t *place = &map->root, other = overlapped(map, nodes, slot);
    while (*place != HT_MAP_NONE && above(*place, slot)) {
        struct ht_map_node *node = node_of(nodes, *place);
        place = before(nodes, *place, slot) ? &node->right : &node->left;
    }
    split(nodes, *place, slot, &mine->left, &mine->right);
    *place = slot;
    return other;
}

void ht_map_remove(struct ht_verify_map *map, struct ht_map_nodes nodes, uint32_t slot) {
    struct ht_map_node *mine = node_of(nodes, slot);
    uint32_t *place = &map->root;
    while (*place != slot) {
        assert(*place != HT_MAP_NONE);
        struct ht_map_node *node = node_of(nodes, *place);
        place = before(nodes, *place, slot) ? &node->right : &node->left;
    }
    merge(nodes, mine->left, mine->right, place);
}
