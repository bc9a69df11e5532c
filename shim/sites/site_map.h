// SPDX-License-Identifier: Apache-2.0
// Maps of 64-bit keys to values that are read without a lock while one thread adds to them. Neither key nor value is 0.
#ifndef HEAPTAPE_SITE_MAP_H
#define HEAPTAPE_SITE_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attributes.h"

struct site_slot {
    _Atomic uint64_t key, value;
};
struct site_slots {
    uint64_t mask;
    struct site_slot slot[];
};
// When it grows, the old slots stay for those who read them.
struct site_map {
    struct site_slots *_Atomic slots;
    size_t count;
    uint32_t refused;  // keys since it last grew, for want of memory
};

// Spreads a number's bits over the high ones: 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 6.4).
#define SITE_MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

// Multiplies the bits of both into the high ones, and those back into the low.
static inline uint64_t site_mix(uint64_t a, uint64_t b) {
    uint64_t mixed = (a ^ b * UINT64_C(0xc2b2ae3d27d4eb4f)) * SITE_MULTIPLIER;
    return (mixed ^ mixed >> 32) | 1;
}

// 0: there is none.
static inline uint64_t site_map_get(const struct site_map *map, uint64_t key) {
    struct site_slots *slots = atomic_load_explicit(&map->slots, memory_order_acquire);
    if (unlikely(!slots)) return 0;
    for (uint64_t i = key >> 1 & slots->mask;; i = (i + 1) & slots->mask) {
        uint64_t found = atomic_load_explicit(&slots->slot[i].key, memory_order_acquire);
        if (likely(found == key)) return atomic_load_explicit(&slots->slot[i].value, memory_order_acquire);
        if (!found) return 0;
    }
}

// Sets a key's value. Only one thread at a time may do so. False: the key is new, and there is no memory for it.
HIDDEN bool site_map_put(struct site_map *map, uint64_t key, uint64_t value);
// Takes out, by value 0, every key of which `goes` says so.
HIDDEN void site_map_sweep(struct site_map *map, bool (*goes)(uint64_t key, uint64_t value));

// Memory that is never given back, and is counted as the recorder's own. NULL: there is no more.
HIDDEN void *site_memory(size_t bytes);
// Such memory in whole pages, of zeros.
HIDDEN void *site_memory_mapped(size_t bytes);
// Such pages, of which little may be used.
HIDDEN void *site_memory_sparse(size_t bytes);
// Gives those back that lie whole in there. A thread that still reads them reads zeros.
HIDDEN void site_memory_release(void *at, size_t bytes);
// Gives back their addresses, too: nobody may read them any more.
HIDDEN void site_memory_unmap(void *at, size_t bytes);

#endif
