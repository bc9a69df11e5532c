// SPDX-License-Identifier: Apache-2.0
// What of malloc lies in mappings of its own: chunks above the mmap threshold, by the headers at the starts of pages, and
// stretches of the main arena where brk gave no more.
#include <stdlib.h>
#include <string.h>

#include "glibc.h"
#include "grow.h"
#include "sorted.h"

enum {
    ON_HUGE_PAGES = 1,  // of the offset that a mapped chunk has in its first word, since 2.43
    HEADER_BYTES = 16,
    MAPPED_BYTES_MIN = 128 << 10,
};

struct search {
    struct glibc *glibc;
    struct space_runs runs;  // of the mapping's part that is looked through
    struct space_window window;
    uint64_t start, end;
    bool pieces;  // the main arena has more than was walked
};

static struct glibc_header header_at(struct search *search, uint64_t at) {
    struct glibc_header header;
    memcpy(&header, space_window_at(&search->window, at, sizeof header), sizeof header);
    return header;
}

// The bytes of the whole mapping that a mapped chunk's header tells, the chunk lying so far behind its start; 0: it is none.
static uint64_t mapped_bytes(const struct glibc *glibc, const struct glibc_header *header, uint64_t offset) {
    uint64_t bytes = glibc_chunk_bytes(header) + glibc->layout->mapped_header_bytes + offset;
    if ((header->size_and_flags & GLIBC_FLAGS) != GLIBC_IS_MAPPED ||
        (header->previous_bytes & ~(uint64_t)ON_HUGE_PAGES) != offset)
        return 0;
    return bytes % SPACE_PAGE_BYTES || bytes >> 47 ? 0 : bytes;
}

static uint64_t mapped_bytes_min(const struct glibc *glibc) {
    uint64_t least = MAPPED_BYTES_MIN;
    return glibc->settings && glibc->mmap_threshold < least ? glibc->mmap_threshold : least;
}

// The bytes of the mapping whose chunk lies so far behind its start, or 0.
static uint64_t try_aligned(const struct search *search, uint64_t start, uint64_t offset) {
    struct glibc_header header;
    if (start + offset + CHUNK_BYTES_MIN > search->end) return 0;
    if (space_runs_bytes(&search->runs, start + offset, start + offset + HEADER_BYTES) < HEADER_BYTES)
        return 0;
    if (!space_read_all(search->glibc->space, start + offset, &header, sizeof header)) return 0;
    uint64_t bytes = mapped_bytes(search->glibc, &header, offset);
    return bytes > offset && bytes <= search->end - start ? bytes : 0;
}

// An aligned block lies behind its mapping's start, where the first header stays and tells no longer how long it is once
// realloc moved it. An alignment below a page gives the offset (16 since 2.38); from there on the chunk's header ends a page, and those
// before are not in RAM.
static struct glibc_mapped aligned_chunk(const struct search *search, uint64_t start) {
    static const uint16_t offsets[] = {16, 48, 112, 240, 496, 1008, 2032, 4080};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        uint64_t bytes = try_aligned(search, start, offsets[i]);
        if (bytes) return (struct glibc_mapped){start, start + bytes, start + offsets[i]};
    }
    size_t run = space_runs_find(&search->runs, start + SPACE_PAGE_BYTES);
    if (run == search->runs.count) return (struct glibc_mapped){0};
    uint64_t page =
        search->runs.run[run].start > start ? search->runs.run[run].start : start + SPACE_PAGE_BYTES;
    uint64_t offset = page + SPACE_PAGE_BYTES - HEADER_BYTES - start,
             bytes = try_aligned(search, start, offset);
    return bytes ? (struct glibc_mapped){start, start + bytes, start + offset} : (struct glibc_mapped){0};
}

// 1: added, 0: there is none, -1: for want of memory. end: of what was added.
static int take_mapped(struct search *search, uint64_t at, const struct glibc_header *header, uint64_t *end) {
    struct glibc *glibc = search->glibc;
    uint64_t bytes = mapped_bytes(glibc, header, 0);
    if (!bytes || bytes < mapped_bytes_min(glibc)) return 0;
    struct glibc_mapped found = aligned_chunk(search, at);
    if (!found.end) found = (struct glibc_mapped){at, at + bytes, at};
    if (found.end > search->end) return 0;
    if (!ht_grow(&glibc->mapped, &glibc->mapped_room, glibc->mapped_count + 1, sizeof *glibc->mapped))
        return -1;
    glibc->mapped[glibc->mapped_count++] = found;
    glibc->checks.mapped_bytes += found.end - found.start;
    *end = found.end;
    return 1;
}

// Where a stretch of chunks that begins there ends, with the main arena's top or two posts; 0: there is none.
static uint64_t end_of_piece(struct search *search, uint64_t at) {
    bool post = false;
    while (at + HEADER_BYTES <= search->end) {
        uint64_t window = search->window.start;
        struct glibc_header header = header_at(search, at);
        if (!glibc_spend(search->glibc, window == search->window.start ? EFFORT_HEADER : EFFORT_WINDOW))
            return 0;
        uint64_t bytes = glibc_chunk_bytes(&header);
        if (header.size_and_flags & GLIBC_FLAGS & ~(uint64_t)GLIBC_PREVIOUS_IN_USE ||
            bytes > search->end - at)
            return 0;
        at += bytes;
        if (at - bytes == search->glibc->arenas[0].top) return at;
        if (bytes == GLIBC_POST_BYTES && post) return at;
        post = bytes == GLIBC_POST_BYTES;
        if (!post && bytes < CHUNK_BYTES_MIN) return 0;
    }
    return 0;
}

static int take_piece(struct search *search, uint64_t at, const struct glibc_header *header, uint64_t *end,
                      struct ht_error *error) {
    if (!search->pieces || !(header->size_and_flags & GLIBC_PREVIOUS_IN_USE) || header->previous_bytes)
        return 0;
    uint64_t found = end_of_piece(search, at);
    if (!found) return 0;
    *end = (found + SPACE_PAGE_BYTES - 1) & ~(SPACE_PAGE_BYTES - 1);
    return glibc_walk_piece(search->glibc, at, *end, error) ? -1 : 1;
}

static int look_through(struct search *search, struct ht_error *error) {
    uint64_t done = search->start;
    for (size_t i = 0; i < search->runs.count; i++) {
        uint64_t at = search->runs.run[i].start > done ? search->runs.run[i].start : done;
        for (uint64_t end; at < search->runs.run[i].end; at = end) {
            struct glibc_header header = {0};
            (void)space_read(search->glibc->space, at, &header, sizeof header);
            end = at + SPACE_PAGE_BYTES;
            int taken = take_mapped(search, at, &header, &end);
            if (!taken) taken = take_piece(search, at, &header, &end, error);
            if (taken < 0) return ht_error_memory(error, "walk", "mapped chunks");
            if (taken) done = end;
        }
    }
    return 0;
}

static int look_in(struct search *search, uint64_t start, uint64_t end, struct ht_error *error) {
    if (start >= end) return 0;
    search->start = start;
    search->end = end;
    int failed = space_runs_add(search->glibc->space, start, end, &search->runs, error);
    search->glibc->effort += search->runs.bytes / EFFORT_BYTES;
    space_window_open(&search->window, search->glibc->space, &search->runs);
    if (!failed) failed = look_through(search, error);
    space_runs_free(&search->runs);
    return failed;
}

static int by_start(const void *a, const void *b) {
    uint64_t one = ((const struct glibc_heap *)a)->mapped_start,
             other = ((const struct glibc_heap *)b)->mapped_start;
    return (one > other) - (one < other);
}

bool glibc_may_map(const struct space_mapping *mapping) {
    static const char named_by_program[] = "[anon:";
    if (!mapping->anonymous || !mapping->writable || mapping->shared) return false;
    return !*mapping->name || !strncmp(mapping->name, named_by_program, sizeof named_by_program - 1);
}

// The parts of a mapping that no heap takes.
static int look_beside_heaps(struct search *search, const struct space_mapping *mapping, size_t heaps,
                             struct ht_error *error) {
    const struct glibc *glibc = search->glibc;
    uint64_t at = mapping->start;
    size_t first = 0;
    for (size_t high = heaps; first < high;) {
        size_t middle = first + (high - first) / 2;
        if (glibc->heaps[middle].end <= at) first = middle + 1;
        else high = middle;
    }
    for (size_t i = first; i < heaps && glibc->heaps[i].mapped_start < mapping->end; i++) {
        uint64_t start = glibc->heaps[i].mapped_start, end = glibc->heaps[i].end;
        if (look_in(search, at, start, error)) return -1;
        at = end;
    }
    return look_in(search, at, mapping->end, error);
}

int glibc_find_mapped(struct glibc *glibc, struct ht_error *error) {
    const struct space *space = glibc->space;
    struct search *search = calloc(1, sizeof *search);
    if (!search) return ht_error_memory(error, "walk", "a window");
    search->glibc = glibc;
    search->pieces = glibc->checks.walked_bytes < glibc->checks.system_bytes;
    size_t heaps = glibc->heap_count;
    if (heaps) qsort(glibc->heaps, heaps, sizeof *glibc->heaps, by_start);
    int failed = 0;
    for (size_t i = 0; !failed && i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        if (!glibc_may_map(mapping)) continue;
        failed = look_beside_heaps(search, mapping, heaps, error);
    }
    free(search);
    if (glibc->heap_count) qsort(glibc->heaps, glibc->heap_count, sizeof *glibc->heaps, by_start);
    if (glibc->mapped_count) qsort(glibc->mapped, glibc->mapped_count, sizeof *glibc->mapped, ht_by_word);
    glibc->checks.mapped_count = glibc->mapped_count;
    return failed;
}

struct glibc_heap *glibc_heap_at(const struct glibc *glibc, uint64_t address) {
    size_t found = HT_FIRST_ABOVE(glibc->heaps, glibc->heap_count, end, address);
    return found < glibc->heap_count && glibc->heaps[found].start <= address ? &glibc->heaps[found] : NULL;
}
