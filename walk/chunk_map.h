// SPDX-License-Identifier: Apache-2.0
// The chunks of a heap in two bits for each 16 bytes: where each begins, and what it is. A chunk has at least two such
// units, the second bits of which tell its kind.
#ifndef HEAPTAPE_CHUNK_MAP_H
#define HEAPTAPE_CHUNK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHUNK_UNIT_BYTES = 16, CHUNK_BYTES_MIN = 32 };

enum chunk_kind { CHUNK_LIVE, CHUNK_BINS, CHUNK_CACHED, CHUNK_FAST };

// Where there is no chunk: a fencepost, 16 bytes that end chunks; behind it, what others took from the break; or what is
// damaged or in swap.
enum gap_kind { GAP_POST, GAP_OTHERS, GAP_LOST };

struct chunk_gap {
    uint64_t start, end;
    enum gap_kind kind;
};

struct chunk_map {
    uint64_t base, bytes;
    uint64_t *begins, *kinds;
    struct chunk_gap *gaps;
    size_t gap_count, gap_room;
    uint64_t top;  // the chunk that is the arena's top, or 0
};

// False for want of memory.
bool chunk_map_open(struct chunk_map *map, uint64_t base, uint64_t end);
void chunk_map_free(struct chunk_map *map);

void chunk_map_add(struct chunk_map *map, uint64_t chunk);
// Forgets all from there on.
void chunk_map_cut(struct chunk_map *map, uint64_t from, uint64_t to);
bool chunk_map_has(const struct chunk_map *map, uint64_t address);
enum chunk_kind chunk_map_kind(const struct chunk_map *map, uint64_t chunk);
void chunk_map_set_kind(struct chunk_map *map, uint64_t chunk, enum chunk_kind kind);
bool chunk_map_add_gap(struct chunk_map *map, uint64_t start, uint64_t end, enum gap_kind kind);
// The map ends there, before which the last chunk ends.
void chunk_map_end(struct chunk_map *map, uint64_t end);

// The first chunk at or behind the address, or the map's end.
uint64_t chunk_map_next(const struct chunk_map *map, uint64_t address);
// How long a chunk is, `most` if it is longer.
uint64_t chunk_map_bytes(const struct chunk_map *map, uint64_t chunk, uint64_t most);
// The last chunk before the address, or 0.
uint64_t chunk_map_before(const struct chunk_map *map, uint64_t address);

#endif
