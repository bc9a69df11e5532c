// SPDX-License-Identifier: Apache-2.0
// A heap that has been used: what the measured child does to its allocator before the trace begins (--age).
//
// As litterer does for programs (van Kempen and Berger), blocks of the program's own sizes are allocated, several times as
// many as the program has live at most, and all but a share of them are freed in random order.
#ifndef HEAPTAPE_AGING_PLAN_H
#define HEAPTAPE_AGING_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "random_numbers.h"

enum { HT_AGING_SIZES_MAX = 1024 };

struct ht_aging {
    uint64_t blocks;            // 0: the heap is fresh
    uint64_t bytes;             // of all of them, as asked for
    uint64_t kept, kept_bytes;  // of those that are kept
    uint64_t kept_of_2_32;      // the share that is kept
    uint32_t sizes;
    uint64_t size_bytes[HT_AGING_SIZES_MAX];  // drawn from the blocks that the trace has live, over its time
};

// What comes of block i is drawn, and the same in every run and for all allocators.
static inline uint64_t ht_aging_draw(uint64_t i, uint64_t which) {
    struct ht_random random = {2 * i + which};
    return ht_random_next(&random) >> 32;
}

static inline uint64_t ht_aging_bytes(const struct ht_aging *aging, uint64_t i) {
    return aging->size_bytes[ht_aging_draw(i, 0) * aging->sizes >> 32];
}

static inline bool ht_aging_keeps(const struct ht_aging *aging, uint64_t i) {
    return ht_aging_draw(i, 1) < aging->kept_of_2_32;
}

#endif
