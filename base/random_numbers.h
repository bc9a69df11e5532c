// SPDX-License-Identifier: Apache-2.0
// Repeatable random numbers (splitmix64): one seed gives one schedule, choice of timed ops, and bootstrap.
#ifndef HEAPTAPE_RANDOM_NUMBERS_H
#define HEAPTAPE_RANDOM_NUMBERS_H

#include <stdint.h>

struct ht_random {
    uint64_t state;
};

static inline uint64_t ht_random_next(struct ht_random *random) {
    uint64_t mixed = random->state += 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return mixed ^ mixed >> 31;
}

// 0 to limit-1.
static inline uint32_t ht_random_below(struct ht_random *random, uint32_t limit) {
    return (uint32_t)((ht_random_next(random) >> 32) * limit >> 32);
}

// order[0..count) becomes a random order of 0..count-1.
static inline void ht_random_order(struct ht_random *random, uint32_t *order, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = ht_random_below(random, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
}

#endif
