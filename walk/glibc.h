// SPDX-License-Identifier: Apache-2.0
// The heap of glibc's malloc in another process: where its data lie by version, and what a walk of them found. The terms
// are malloc/malloc.c's: a chunk is a block with its header of 8 bytes; an arena has bins of free chunks and a top chunk;
// arenas but the main one lie in heaps, which are mapped at multiples of 64 MB, or of 4 huge pages.
#ifndef HEAPTAPE_GLIBC_H
#define HEAPTAPE_GLIBC_H

#include "chunk_map.h"
#include "space.h"

// ---- where things are ----

enum { GLIBC_OLDEST = 26, GLIBC_NEWEST = 43, GLIBC_BINS = 127, GLIBC_FASTBINS = 10, GLIBC_ARENAS_MAX = 8192 };

// What reading a word, a window or a header costs, and how much may be spent in all, and more for each byte of a heap.
enum { EFFORT_WORD = 20, EFFORT_WINDOW = 400, EFFORT_HEADER = 1, EFFORT_BASE = 16 << 20, EFFORT_BYTES = 8 };

// Offsets in bytes, of 64 bit.
struct glibc_layout {
    int from_minor, to_minor;  // of 2.N
    struct {
        uint16_t fastbins, top, bins, next, system_bytes,
            all;  // struct malloc_state; fastbins 0: there are none
    } arena;
    struct {
        uint16_t top_pad, mmap_threshold, arena_test, mapped_count, mapped_count_max, mapped_bytes, sbrk_base,
            cache_bins, huge_page_bytes;  // struct malloc_par; the last 0: heaps have one size
    } settings;
    uint16_t heap_header_bytes;  // heap_info
    struct {
        uint16_t bins, count_bytes, all;  // struct tcache_perthread_struct
        bool counts_room;                 // its counts are of what still fits in
    } cache;
    bool has_key,
        hides_links;  // in a cached chunk, the second word is the same in all; links are xor-ed with their address
    uint16_t mapped_header_bytes;  // what a mapped chunk's size leaves out
};

// What a chunk begins with. Of a mapped one the first word is how far it lies behind its mapping's start.
struct glibc_header {
    uint64_t previous_bytes, size_and_flags;
};
enum {
    GLIBC_PREVIOUS_IN_USE = 1,
    GLIBC_IS_MAPPED = 2,
    GLIBC_OF_OTHER_ARENA = 4,
    GLIBC_FLAGS = 7,
    GLIBC_POST_BYTES = 16,  // of a chunk that only ends others
};

static inline uint64_t glibc_chunk_bytes(const struct glibc_header *header) {
    return header->size_and_flags & ~(uint64_t)GLIBC_FLAGS;
}

// NULL: no layout is known of that version.
const struct glibc_layout *glibc_layout_of(int minor);

// ---- what is there ----

struct glibc_arena {
    uint64_t address, top, system_bytes;
    uint64_t bins[2 * GLIBC_BINS], fastbins[GLIBC_FASTBINS];
    bool locked;
    uint64_t
        *free_chunks;  // of its bins and its top, ordered: where a walk goes on behind what it cannot read
    size_t free_count, free_room;
    bool free_known;
};

// A stretch of chunks, one behind the other.
struct glibc_heap {
    uint64_t start, end;  // from the first chunk on
    uint64_t mapped_start;
    size_t arena;
    struct space_runs runs;
    struct chunk_map chunks;
};

// A chunk of its own mapping; a block that is aligned lies behind an unused part.
struct glibc_mapped {
    uint64_t start, end, chunk;
};

struct glibc_checks {
    uint64_t walked_bytes, system_bytes;       // of heaps: found, and what the arenas say
    uint64_t mapped_count, mapped_count_said;  // chunks of their own mapping
    uint64_t mapped_bytes, mapped_bytes_said;
    uint64_t lost_bytes;                             // of heaps: not understood
    uint64_t read_again, locked_arenas, torn_lists;  // signs of a process that goes on
    bool settings_found;
};

struct glibc {
    struct space *space;
    const struct glibc_layout *layout;
    int minor;
    uint64_t main_arena, settings;
    uint64_t sbrk_base, mmap_threshold, heap_bytes_max;
    struct glibc_arena *arenas;  // the first is the main one
    size_t arena_count, arena_room;
    struct glibc_heap *heaps;  // by address
    size_t heap_count, heap_room;
    struct glibc_mapped *mapped;  // by address
    size_t mapped_count, mapped_room;
    uint64_t *
        caches;  // chunks of the size of a thread's cache, by address; once the lists are read, those that are one
    size_t cache_count, cache_room;
    uint64_t *heaps_seen;  // a bit for each place where an arena's heap may begin
    uint64_t effort;       // that what makes no sense may still cost, in steps of about 0.1 us
    struct glibc_checks checks;
};

// Beyond one look at each chunk: the memory of a process that wants us to be busy, or is damaged, takes no longer.
static inline bool glibc_spend(struct glibc *glibc, uint64_t effort) {
    bool enough = glibc->effort >= effort;
    glibc->effort -= enough ? effort : glibc->effort;
    return enough;
}

static inline uint64_t glibc_bin(const struct glibc *glibc, const struct glibc_arena *arena, int bin) {
    return arena->address + glibc->layout->arena.bins - 16 + 16 * (uint64_t)bin;
}

// Finds malloc's data in the mappings of that name, the C library's. False: they are not there, as where nothing was
// allocated yet. 0 is the address of settings that were not found.
bool glibc_find(struct glibc *glibc, struct space *space, int minor, const char *library);

// Walks all heaps, mapped chunks and lists. 0 or -1 with error, for want of memory: what cannot be read is in the checks.
int glibc_walk(struct glibc *glibc, struct ht_error *error);

// Parts of the walk.
int glibc_walk_heaps(struct glibc *glibc, struct ht_error *error);
int glibc_find_mapped(struct glibc *glibc, struct ht_error *error);
int glibc_mark_cached(struct glibc *glibc, struct ht_error *error);
// Private memory of no file and no other known purpose.
bool glibc_may_map(const struct space_mapping *mapping);
// A stretch of the main arena that mmap gave, where brk gave no more.
int glibc_walk_piece(struct glibc *glibc, uint64_t start, uint64_t end, struct ht_error *error);
// The heap that holds the address, or NULL.
struct glibc_heap *glibc_heap_at(const struct glibc *glibc, uint64_t address);
bool glibc_read_arena(const struct glibc *glibc, uint64_t address, struct glibc_arena *arena);

void glibc_free(struct glibc *glibc);

#endif
