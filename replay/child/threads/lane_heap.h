// SPDX-License-Identifier: Apache-2.0
// Lanes by a time, the earliest first (of equal times the lower number): a binary heap in the caller's
// memory.
#ifndef HEAPTAPE_LANE_HEAP_H
#define HEAPTAPE_LANE_HEAP_H

#include <stdint.h>

struct ht_lane_key {
    uint64_t ns;
    uint32_t lane;
};

struct ht_lane_heap {
    struct ht_lane_key *keys;  // the first is the earliest
    uint32_t count;
};

void ht_lane_heap_put(struct ht_lane_heap *heap, uint64_t ns, uint32_t lane);
// Takes the earliest out, of which there must be one.
struct ht_lane_key ht_lane_heap_take(struct ht_lane_heap *heap);
// The earliest becomes a later one.
void ht_lane_heap_delay_first(struct ht_lane_heap *heap, uint64_t ns);

#endif
