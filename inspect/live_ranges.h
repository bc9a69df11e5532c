// SPDX-License-Identifier: Apache-2.0
// The live blocks of a raw log in order of address: a treap, so that the neighbours of an address are found
// in a few steps. Ranges may overlap, because finding that is what it is for; no two begin at one address.
#ifndef HEAPTAPE_LIVE_RANGES_H
#define HEAPTAPE_LIVE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lint_checks.h"

struct live_range {
    uint64_t address;
    struct lint_block block;
    uint32_t left, right;  // numbers of nodes; 0 is none
};

struct live_ranges {
    struct live_range *node;
    uint32_t used, room, root, unused;
};

void live_ranges_free(struct live_ranges *ranges);
// No range may begin at the address yet. False for want of memory.
bool live_ranges_add(struct live_ranges *ranges, uint64_t address, const struct lint_block *block);
// Removes the range that begins at the address, which must be there.
void live_ranges_remove(struct live_ranges *ranges, uint64_t address);
// The range that begins at the address or as close below it as there is one; NULL if none. Stays valid until
// something is added.
const struct live_range *live_ranges_below(const struct live_ranges *ranges, uint64_t address);
// The first range that begins above the address; NULL if none.
const struct live_range *live_ranges_above(const struct live_ranges *ranges, uint64_t address);

#endif
