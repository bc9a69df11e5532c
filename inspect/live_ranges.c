// SPDX-License-Identifier: Apache-2.0
#include "live_ranges.h"

#include <assert.h>
#include <stdlib.h>

void live_ranges_free(struct live_ranges *ranges) {
    free(ranges->node);
    *ranges = (struct live_ranges){0};
}

// Random enough to keep the treap flat, the same in every run.
static uint32_t priority(uint32_t node) {
    uint32_t mixed = node * UINT32_C(0x9e3779b1);
    mixed = (mixed ^ mixed >> 15) * UINT32_C(0x85ebca6b);
    return mixed ^ mixed >> 13;
}

// A node out of use, or a new one; 0 for want of memory.
static uint32_t take_node(struct live_ranges *ranges) {
    if (ranges->unused) {
        uint32_t node = ranges->unused;
        ranges->unused = ranges->node[node].left;
        return node;
    }
    if (ranges->used + 1 >= ranges->room) {
        uint32_t room = ranges->room ? ranges->room + ranges->room / 2 : 1024;
        struct live_range *larger = room > ranges->room ? realloc(ranges->node, room * sizeof *larger) : NULL;
        if (!larger) return 0;
        ranges->node = larger;
        ranges->room = room;
    }
    return ++ranges->used;
}

bool live_ranges_add(struct live_ranges *ranges, uint64_t address, const struct lint_block *block) {
    uint32_t added = take_node(ranges);
    if (!added) return false;
    struct live_range *node = ranges->node;
    uint32_t *link = &ranges->root;
    while (*link && priority(*link) >= priority(added)) {
        assert(node[*link].address != address);
        link = address < node[*link].address ? &node[*link].left : &node[*link].right;
    }
    // What hung here is split into what lies below the address and what lies above.
    uint32_t rest = *link, *below = &node[added].left, *above = &node[added].right;
    node[added].address = address;
    node[added].block = *block;
    *link = added;
    while (rest) {
        uint32_t **side = node[rest].address < address ? &below : &above;
        **side = rest;
        *side = side == &below ? &node[rest].right : &node[rest].left;
        rest = **side;
    }
    *below = *above = 0;
    return true;
}

void live_ranges_remove(struct live_ranges *ranges, uint64_t address) {
    struct live_range *node = ranges->node;
    uint32_t *link = &ranges->root;
    while (*link && node[*link].address != address)
        link = address < node[*link].address ? &node[*link].left : &node[*link].right;
    uint32_t gone = *link, below, above;
    assert(gone);
    below = node[gone].left;
    above = node[gone].right;
    while (below && above) {
        bool lower = priority(below) > priority(above);
        *link = lower ? below : above;
        link = lower ? &node[below].right : &node[above].left;
        if (lower) below = *link;
        else above = *link;
    }
    *link = below | above;
    node[gone].left = ranges->unused;
    ranges->unused = gone;
}

const struct live_range *live_ranges_below(const struct live_ranges *ranges, uint64_t address) {
    uint32_t best = 0;
    for (uint32_t at = ranges->root; at;) {
        if (ranges->node[at].address <= address) {
            best = at;
            at = ranges->node[at].right;
        } else {
            at = ranges->node[at].left;
        }
    }
    return best ? &ranges->node[best] : NULL;
}

const struct live_range *live_ranges_above(const struct live_ranges *ranges, uint64_t address) {
    uint32_t best = 0;
    for (uint32_t at = ranges->root; at;) {
        if (ranges->node[at].address > address) {
            best = at;
            at = ranges->node[at].left;
        } else {
            at = ranges->node[at].right;
        }
    }
    return best ? &ranges->node[best] : NULL;
}
