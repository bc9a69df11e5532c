// SPDX-License-Identifier: Apache-2.0
// mimalloc 2: segments at multiples of 32 or 64 MiB begin with a table of their slices of 64 KiB, which pages of blocks of one size
// are made of. The slices of a segment must tile it, and its cookie be its address in the same disguise as that of all others.
#include <string.h>

#include "other.h"
#include "sorted.h"

enum { SLICE_BYTES = 64 << 10, SLICES_MAX = 1024, PAGE_RECORD_MAX = 96, HEADER_BYTES = 512, IS_HUGE = 1 };

struct layout {
    const char *build;
    uint32_t segment_bytes, slices_max;
    struct {
        uint16_t used, cookie, slice_count, info_count, kind, entries, slices;
    } segment;
    struct {
        uint16_t all, used, used_bytes, block_bytes, block_bytes_bytes, freed, heap;
    } page;
    uint16_t heap_freed;  // blocks of full pages that other threads freed
};

static const struct layout layouts[] = {
    {"mimalloc 2.1.8 to 2.5",
     32 << 20,
     512,
     {216, 224, 248, 256, 264, 272, 288},
     {96, 32, 2, 40, 8, 56, 64},
     8},
    {"mimalloc 2.1.4 to 2.1.7",
     32 << 20,
     512,
     {208, 216, 224, 232, 240, 248, 264},
     {96, 32, 2, 40, 8, 56, 64},
     8},
    {"mimalloc 2.0.9 to 2.1.2",
     32 << 20,
     512,
     {208, 216, 224, 232, 240, 248, 264},
     {80, 24, 4, 28, 4, 40, 48},
     2840},
    {"mimalloc 2.0.3 to 2.0.7",
     64 << 20,
     1024,
     {312, 320, 328, 336, 344, 360, 368},
     {80, 24, 4, 28, 4, 40, 48},
     2840},
};

enum {
    SLICE_COUNT_OFFSET = 0,
    SLICE_OFFSET_OFFSET = 4,
    CAPACITY_OFFSET = 10,
    RESERVED_OFFSET = 12,
    FLAGS_OFFSET = 14,
    HAS_ALIGNED = 2
};

enum { HEAPS_MAX = 4096 };

struct search {
    struct other *other;
    const struct layout *layout;
    uint64_t cookie;
    uint64_t heaps[HEAPS_MAX];
    size_t heap_count;
    uint8_t records[HEADER_BYTES + (SLICES_MAX + 1) * PAGE_RECORD_MAX];
};

static uint64_t number_at(const uint8_t *bytes, size_t size) {
    uint64_t number = 0;
    memcpy(&number, bytes, size);
    return number;
}

// How many blocks are in a list of freed ones, of at most so many.
static uint64_t list_length(const struct other *other, uint64_t block, uint64_t start, uint64_t end,
                            uint64_t most) {
    uint64_t length = 0;
    while (block >= start && block < end && length < most && other_read(other, block, &block, sizeof block))
        length++;
    return length;
}

static void note_heap(struct search *search, uint64_t heap) {
    for (size_t i = 0; i < search->heap_count; i++)
        if (search->heaps[i] == heap) return;
    if (heap && search->heap_count < HEAPS_MAX) search->heaps[search->heap_count++] = heap;
}

// A page that begins at this slice. False for want of memory.
static bool take_page(struct search *search, uint64_t start, uint64_t bytes, const uint8_t *record) {
    const struct layout *layout = search->layout;
    uint64_t capacity = number_at(record + CAPACITY_OFFSET, 2),
             reserved = number_at(record + RESERVED_OFFSET, 2);
    struct other_span span = {
        .start = start,
        .end = start + bytes,
        .block_bytes = number_at(record + layout->page.block_bytes, layout->page.block_bytes_bytes),
        .blocks = number_at(record + layout->page.used, layout->page.used_bytes),
        .room = capacity,
        .shifted = reserved == 1 && record[FLAGS_OFFSET] & HAS_ALIGNED};
    // A size of 4 bytes holds no larger one than this, which then stands for all of them.
    if (layout->page.block_bytes_bytes == 4 && span.block_bytes >> 31) span.block_bytes = bytes;
    if (!span.block_bytes || !capacity) span.block_bytes = span.blocks = span.room = 0;
    if (capacity > reserved || span.blocks > capacity) return search->other->lost++, true;
    uint64_t freed = number_at(record + layout->page.freed, 8) & ~UINT64_C(3);
    uint64_t cached = list_length(search->other, freed, start, start + bytes, span.blocks);
    note_heap(search, number_at(record + layout->page.heap, 8));
    return (!cached || other_add_cached(search->other, span.block_bytes, cached)) &&
           other_add_span(search->other, span);
}

// The slices tile the segment, and as many begin pages as it says; 0: they do not.
static uint64_t tiled_slices(const struct layout *layout, const uint8_t *records) {
    uint64_t entries = number_at(records + layout->segment.entries, 8), at = 0, pages = 0;
    uint64_t all = number_at(records + layout->segment.slice_count, 8);
    if (!entries || entries > layout->slices_max || all < entries || all >> 31) return 0;
    while (at < entries) {
        const uint8_t *record = records + layout->segment.slices + at * layout->page.all;
        uint64_t count = number_at(record + SLICE_COUNT_OFFSET, 4);
        if (!count || number_at(record + SLICE_OFFSET_OFFSET, 4)) return 0;
        pages += at && number_at(record + layout->page.block_bytes, layout->page.block_bytes_bytes);
        at += count;
    }
    return at <= all && pages == number_at(records + layout->segment.used, 8) ? entries : 0;
}

static bool take_segment(struct search *search, uint64_t segment) {
    const struct layout *layout = search->layout;
    struct other *other = search->other;
    size_t bytes = layout->segment.slices + (size_t)layout->slices_max * layout->page.all;
    memset(search->records, 0, sizeof search->records);
    if (!other_read(other, segment, search->records, HEADER_BYTES)) return true;
    // A short segment's table may end within pages that are not in RAM.
    for (size_t at = 0; at < bytes; at += SPACE_PAGE_BYTES)
        (void)other_read(other, segment + at, search->records + at,
                         bytes - at < SPACE_PAGE_BYTES ? bytes - at : SPACE_PAGE_BYTES);
    uint64_t entries = tiled_slices(layout, search->records);
    uint64_t cookie = number_at(search->records + layout->segment.cookie, 8) ^ segment;
    if (!entries) {
        // One that changes meanwhile is known by its cookie.
        if (search->cookie && cookie == search->cookie) other->lost++;
        return true;
    }
    if (search->cookie && search->cookie != cookie) return other->lost++, true;
    search->cookie = cookie;
    other->records++;
    for (uint64_t at = 0, count; at < entries; at += count) {
        const uint8_t *record = search->records + layout->segment.slices + at * layout->page.all;
        count = number_at(record + SLICE_COUNT_OFFSET, 4);
        other->records++;
        if (at && !take_page(search, segment + at * SLICE_BYTES, count * SLICE_BYTES, record)) return false;
    }
    return true;
}

static bool take_segments(struct search *search) {
    const struct space *space = search->other->space;
    uint64_t step = search->layout->segment_bytes;
    for (size_t i = 0; i < search->other->runs.count; i++) {
        const struct space_run *run = &search->other->runs.run[i];
        for (uint64_t at = (run->start + step - 1) & ~(step - 1); at < run->end; at += step) {
            const struct space_mapping *mapping = space_mapping_at(space, at);
            if (mapping && mapping->anonymous && !take_segment(search, at)) return false;
        }
    }
    return true;
}

static const struct other_span *span_at(const struct other *other, uint64_t address) {
    size_t found = HT_FIRST_ABOVE(other->spans, other->span_count, end, address);
    return found < other->span_count && other->spans[found].start <= address ? &other->spans[found] : NULL;
}

// Each heap's list of blocks that other threads freed and it has not taken back.
static bool take_freed(struct search *search) {
    struct other *other = search->other;
    for (size_t i = 0; i < search->heap_count; i++) {
        uint64_t block = 0;
        (void)other_read(other, search->heaps[i] + search->layout->heap_freed, &block, sizeof block);
        for (uint64_t count = 0; block && count < other->span_count; count++) {
            const struct other_span *span = span_at(other, block);
            if (!span || !span->blocks || !other_read(other, block, &block, sizeof block)) break;
            if (!other_add_cached(other, span->block_bytes, 1)) return false;
        }
    }
    return true;
}

bool other_find_mimalloc2(struct other *other) {
    struct search search;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        search = (struct search){.other = other, .layout = &layouts[i]};
        if (!take_segments(&search)) return false;
        if (other_agrees(other)) {
            other_order_spans(other);
            other->build = layouts[i].build;
            other->caches_known = true;
            return take_freed(&search);
        }
        other_forget(other);
    }
    return true;
}
