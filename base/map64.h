// SPDX-License-Identifier: Apache-2.0
// A hash map from 64-bit keys (not 0) to 64-bit values: open addressing, linear probing, no tombstones.
// 16 bytes an entry, at most half full (fuller, the probing costs more than the misses saved); it grows in
// place, so that it never takes more than 64 bytes a key.
#ifndef HEAPTAPE_MAP64_H
#define HEAPTAPE_MAP64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map64_entry {
    uint64_t key, value;
};

struct map64 {
    struct map64_entry *entry;
    size_t count;
    unsigned bits;  // log2 of the room
};

// Fails only for want of memory; the map is then as it was.
bool map64_init(struct map64 *map);
void map64_free(struct map64 *map);
bool map64_grow(struct map64 *map);
void map64_remove_at(struct map64 *map, size_t i);

static inline size_t map64_home(const struct map64 *map, uint64_t key) {
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - map->bits));
}
static inline void map64_prefetch(const struct map64 *map, uint64_t key) {
    __builtin_prefetch(&map->entry[map64_home(map, key)], 1);
}

// Index of the key's entry, or of the empty one where it would go.
static inline size_t map64_find(const struct map64 *map, uint64_t key) {
    size_t mask = ((size_t)1 << map->bits) - 1, i = map64_home(map, key);
    while (map->entry[i].key != key && map->entry[i].key != 0) i = (i + 1) & mask;
    return i;
}
static inline bool map64_has(const struct map64 *map, size_t i) { return map->entry[i].key != 0; }

// Room for one key more? If not, grows; indexes found before are then stale. False only for want of memory.
static inline bool map64_reserve(struct map64 *map) {
    size_t room = (size_t)1 << map->bits;
    return __builtin_expect(map->count < room / 2, 1) || map64_grow(map);
}

// Adds a key at the empty place where map64_find left it, after map64_reserve.
static inline void map64_add_at(struct map64 *map, size_t i, uint64_t key, uint64_t value) {
    map->entry[i] = (struct map64_entry){key, value};
    map->count++;
}

// Adds or replaces. False only for want of memory.
static inline bool map64_put(struct map64 *map, uint64_t key, uint64_t value) {
    if (!map64_reserve(map)) return false;
    size_t i = map64_find(map, key);
    map->count += !map64_has(map, i);
    map->entry[i] = (struct map64_entry){key, value};
    return true;
}

#endif
