// SPDX-License-Identifier: Apache-2.0
// A hash map from 64-bit keys (not 0) to 64-bit values: open addressing, linear probing, no tombstones.
// 16 bytes an entry. A large map is 56 to 70 % full: it grows by a quarter, in place, so that it takes at most 29
// bytes a key.
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
    size_t count, room;
    size_t count_max;  // it grows before it holds more
};

// Fails only for want of memory; the map is then as it was.
bool map64_init(struct map64 *map);
void map64_free(struct map64 *map);
bool map64_grow(struct map64 *map);
void map64_remove_at(struct map64 *map, size_t i);

// The hash as a share of the room: homes stay in the order of the hashes when it grows.
static inline size_t map64_home(const struct map64 *map, uint64_t key) {
    return (size_t)((unsigned __int128)(key * UINT64_C(0x9e3779b97f4a7c15)) * map->room >> 64);
}
static inline size_t map64_after(const struct map64 *map, size_t i) { return i + 1 < map->room ? i + 1 : 0; }
static inline void map64_prefetch(const struct map64 *map, uint64_t key) {
    __builtin_prefetch(&map->entry[map64_home(map, key)], 1);
}

// Index of the key's entry, or of the empty one where it would go.
static inline size_t map64_find(const struct map64 *map, uint64_t key) {
    size_t i = map64_home(map, key);
    while (map->entry[i].key != key && map->entry[i].key != 0) i = map64_after(map, i);
    return i;
}
static inline bool map64_has(const struct map64 *map, size_t i) { return map->entry[i].key != 0; }

// Room for one key more? If not, grows; indexes found before are then stale. False only for want of memory.
static inline bool map64_reserve(struct map64 *map) {
    return __builtin_expect(map->count < map->count_max, 1) || map64_grow(map);
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
