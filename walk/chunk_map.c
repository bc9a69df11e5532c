// SPDX-License-Identifier: Apache-2.0
#include "chunk_map.h"

#include <assert.h>
#include <stdlib.h>

#include "grow.h"
#include "sorted.h"

enum { WORD_BITS = 64 };

bool chunk_map_open(struct chunk_map *map, uint64_t base, uint64_t end) {
    assert(base % CHUNK_UNIT_BYTES == 0 && base < end);
    *map = (struct chunk_map){.base = base, .bytes = end - base};
    size_t words = (size_t)(map->bytes / CHUNK_UNIT_BYTES / WORD_BITS + 1);
    map->begins = calloc(words, sizeof *map->begins);
    map->kinds = calloc(words, sizeof *map->kinds);
    return map->begins && map->kinds;
}

void chunk_map_free(struct chunk_map *map) {
    free(map->begins);
    free(map->kinds);
    free(map->gaps);
    *map = (struct chunk_map){0};
}

static uint64_t unit_of(const struct chunk_map *map, uint64_t address) {
    assert(address >= map->base && address < map->base + map->bytes);
    return (address - map->base) / CHUNK_UNIT_BYTES;
}

static uint64_t bit_of(uint64_t unit) { return UINT64_C(1) << unit % WORD_BITS; }

static void set_bit(uint64_t *plane, uint64_t unit, bool on) {
    if (on) plane[unit / WORD_BITS] |= bit_of(unit);
    else plane[unit / WORD_BITS] &= ~bit_of(unit);
}

static bool bit(const uint64_t *plane, uint64_t unit) { return plane[unit / WORD_BITS] & bit_of(unit); }

void chunk_map_add(struct chunk_map *map, uint64_t chunk) { set_bit(map->begins, unit_of(map, chunk), true); }

void chunk_map_cut(struct chunk_map *map, uint64_t from, uint64_t to) {
    for (uint64_t at = chunk_map_next(map, from); at < to; at = chunk_map_next(map, at + CHUNK_BYTES_MIN)) {
        chunk_map_set_kind(map, at, CHUNK_LIVE);
        set_bit(map->begins, unit_of(map, at), false);
    }
}

bool chunk_map_has(const struct chunk_map *map, uint64_t address) {
    return address >= map->base && address < map->base + map->bytes && address % CHUNK_UNIT_BYTES == 0 &&
           bit(map->begins, unit_of(map, address));
}

enum chunk_kind chunk_map_kind(const struct chunk_map *map, uint64_t chunk) {
    uint64_t unit = unit_of(map, chunk);
    return (enum chunk_kind)(bit(map->kinds, unit) | bit(map->kinds, unit + 1) << 1);
}

void chunk_map_set_kind(struct chunk_map *map, uint64_t chunk, enum chunk_kind kind) {
    uint64_t unit = unit_of(map, chunk);
    set_bit(map->kinds, unit, kind & 1);
    set_bit(map->kinds, unit + 1, kind >> 1 & 1);
}

bool chunk_map_add_gap(struct chunk_map *map, uint64_t start, uint64_t end, enum gap_kind kind) {
    assert(start < end && (!map->gap_count || map->gaps[map->gap_count - 1].end <= start));
    if (!ht_grow(&map->gaps, &map->gap_room, map->gap_count + 1, sizeof *map->gaps)) return false;
    map->gaps[map->gap_count++] = (struct chunk_gap){start, end, kind};
    return true;
}

void chunk_map_end(struct chunk_map *map, uint64_t end) {
    assert(end >= map->base && end <= map->base + map->bytes);
    map->bytes = end - map->base;
}

// The first chunk at or behind the address, or the end, if none lies before that.
static uint64_t next_before(const struct chunk_map *map, uint64_t address, uint64_t end) {
    if (address < map->base) address = map->base;
    if (address >= end) return end;
    uint64_t unit = unit_of(map, address), units = (end - map->base) / CHUNK_UNIT_BYTES;
    uint64_t word = map->begins[unit / WORD_BITS] & ~UINT64_C(0) << unit % WORD_BITS;
    for (uint64_t i = unit / WORD_BITS;; word = map->begins[i]) {
        if (word) {
            uint64_t found = map->base + (i * WORD_BITS + (uint64_t)__builtin_ctzll(word)) * CHUNK_UNIT_BYTES;
            return found < end ? found : end;
        }
        if (++i > units / WORD_BITS) return end;
    }
}

uint64_t chunk_map_next(const struct chunk_map *map, uint64_t address) {
    return next_before(map, address, map->base + map->bytes);
}

uint64_t chunk_map_bytes(const struct chunk_map *map, uint64_t chunk, uint64_t most) {
    uint64_t map_end = map->base + map->bytes, end = map_end - chunk < most ? map_end : chunk + most;
    size_t gap = HT_FIRST_ABOVE(map->gaps, map->gap_count, end, chunk);
    end = next_before(map, chunk + CHUNK_BYTES_MIN, end);
    return (gap < map->gap_count && map->gaps[gap].start < end ? map->gaps[gap].start : end) - chunk;
}

uint64_t chunk_map_before(const struct chunk_map *map, uint64_t address) {
    if (address <= map->base) return 0;
    uint64_t unit = unit_of(map, address - 1);
    uint64_t word = map->begins[unit / WORD_BITS] & ~UINT64_C(0) >> (WORD_BITS - 1 - unit % WORD_BITS);
    for (uint64_t i = unit / WORD_BITS;; word = map->begins[i]) {
        if (word)
            return map->base +
                   (i * WORD_BITS + WORD_BITS - 1 - (uint64_t)__builtin_clzll(word)) * CHUNK_UNIT_BYTES;
        if (!i--) return 0;
    }
}
