// SPDX-License-Identifier: Apache-2.0
// mimalloc 3: a tree by number of slices of 64 KiB (its page map) leads to the record of each page, which has blocks of one size
// and tells which slices of which arena it takes.
#include <string.h>

#include "other.h"

enum {
    SLICE_BITS = 16,
    LEAF_BITS = 13,
    MAP_BYTES = (4 << 20) + 512,
    RECORD_BYTES = 128,
    HAS_ALIGNED = 2,
    MAP_HEADER_MAX = 256,
    LEAVES_TRIED_MAX = 64
};

enum start_kind { START_ADDRESS, START_WORDS, START_BYTES };  // behind the record, in words or bytes

struct layout {
    const char *build;
    uint8_t block_bytes, used, capacity, reserved, freed, start;
    enum start_kind start_kind;
    uint8_t origin, arena_kind;  // mi_memid_t, and its kind where an arena is meant
    uint8_t flags;
};

static const struct layout layouts[] = {
    {"mimalloc 3.0 to 3.3", 40, 16, 18, 20, 32, 48, START_ADDRESS, 96, 7, 0},
    {"mimalloc 3.4", 40, 16, 18, 20, 32, 48, START_WORDS, 88, 7, 0},
    {"mimalloc 3.6", 32, 40, 56, 58, 64, 48, START_BYTES, 104, 6, 8},
};

struct origin {
    uint64_t arena;
    uint32_t slice, slices;
    int32_t kind;
};

struct page {
    uint64_t start, block_bytes, freed;
    uint16_t used, capacity, reserved;
    bool has_aligned;
    struct origin origin;
};

enum { ARENAS_MAX = 1024 };

struct search {
    const struct layout *layout;
    struct {
        uint64_t address, start, end;
    } arenas[ARENAS_MAX];
    size_t arena_count;
};

static const struct layout *layout_of(const struct page_tree *tree) {
    return ((const struct search *)tree->user)->layout;
}

static bool read_page(const struct page_tree *tree, uint64_t record, struct page *page) {
    const struct layout *layout = layout_of(tree);
    uint8_t bytes[RECORD_BYTES];
    uint32_t words;
    if (record % 8 || !other_read(tree->other, record, bytes, sizeof bytes)) return false;
    memcpy(&page->block_bytes, bytes + layout->block_bytes, 8);
    memcpy(&page->used, bytes + layout->used, 2);
    memcpy(&page->capacity, bytes + layout->capacity, 2);
    memcpy(&page->reserved, bytes + layout->reserved, 2);
    memcpy(&page->freed, bytes + layout->freed, 8);
    memcpy(&page->origin, bytes + layout->origin, sizeof page->origin);
    memcpy(&page->start, bytes + layout->start, 8);
    page->has_aligned = bytes[layout->flags] & HAS_ALIGNED;
    memcpy(&words, bytes + layout->start, 4);
    if (layout->start_kind == START_WORDS) page->start = record + 8 * (uint64_t)words;
    if (layout->start_kind == START_BYTES) page->start += record;
    return page->block_bytes && !(page->block_bytes >> 47) && page->reserved && !(page->start >> 47) &&
           page->start > SPACE_PAGE_BYTES && page->capacity <= page->reserved && page->used <= page->capacity;
}

static bool stretch_of(const struct page_tree *tree, uint64_t word, uint64_t *first, uint64_t *count) {
    struct page page;
    if (!read_page(tree, word, &page)) return false;
    *first = page.start >> SLICE_BITS;
    *count = ((page.start + page.reserved * page.block_bytes - 1) >> SLICE_BITS) - *first + 1;
    return true;
}

static uint64_t list_length(const struct page_tree *tree, const struct page *page) {
    uint64_t block = page->freed & ~UINT64_C(3), length = 0,
             end = page->start + page->reserved * page->block_bytes;
    while (block >= page->start && block < end && length < page->used &&
           other_read(tree->other, block, &block, sizeof block))
        length++;
    return length;
}

// The slices of an arena, the first of which are its own. Where it says how many it has differs by version: behind its number
// among all, or behind its address as well.
static void note_arena(struct page_tree *tree, const struct page *page) {
    enum { COUNT_FIRST = 4, COUNT_LAST = 6, SLICES_MAX = 1 << 20 };
    struct search *search = tree->user;
    uint64_t words[COUNT_LAST + 2], slice = page->start >> SLICE_BITS;
    for (size_t i = search->arena_count; i-- > 0;)
        if (search->arenas[i].address == page->origin.arena) return;
    if (search->arena_count == ARENAS_MAX || slice < page->origin.slice ||
        !other_read(tree->other, page->origin.arena, words, sizeof words))
        return;
    for (int i = COUNT_FIRST; i <= COUNT_LAST; i++) {
        uint64_t start = slice - page->origin.slice, all = words[i], own = words[i + 1];
        if (all > SLICES_MAX || !own || own >= all ||
            page->origin.slice + (uint64_t)page->origin.slices > all)
            continue;
        search->arenas[search->arena_count].address = page->origin.arena;
        search->arenas[search->arena_count].start = (start + own) << SLICE_BITS;
        search->arenas[search->arena_count++].end = (start + all) << SLICE_BITS;
        return;
    }
}

static bool take(struct page_tree *tree, uint64_t word) {
    struct other *other = tree->other;
    struct page page;
    other->records++;
    if (!read_page(tree, word, &page)) return other->lost++, true;
    uint64_t cached = list_length(tree, &page), bytes = page.reserved * page.block_bytes;
    if (cached && !other_add_cached(other, page.block_bytes, cached)) return false;
    struct other_span span = {.start = page.start & ~(SPACE_PAGE_BYTES - 1),
                              .end = (page.start + bytes + SPACE_PAGE_BYTES - 1) & ~(SPACE_PAGE_BYTES - 1),
                              .block_bytes = page.block_bytes,
                              .blocks = page.used,
                              .room = page.capacity,
                              .shifted = page.has_aligned && page.reserved == 1};
    if (page.origin.kind == layout_of(tree)->arena_kind) {
        note_arena(tree, &page);
        span.start = page.start >> SLICE_BITS << SLICE_BITS;
        uint64_t end = span.start + ((uint64_t)page.origin.slices << SLICE_BITS);
        if (end < span.end) return other->lost++, true;
        span.end = end;
    }
    return other_add_span(other, span);
}

// What no page takes of the arenas is free, or of the allocator's own data.
static bool take_rest(struct other *other, const struct search *search) {
    other_order_spans(other);
    size_t count = other->span_count;
    for (size_t i = 0; i < search->arena_count; i++) {
        uint64_t at = search->arenas[i].start, end = search->arenas[i].end;
        for (size_t k = 0; k <= count && at < end; k++) {
            const struct other_span *span = k < count ? &other->spans[k] : NULL;
            if (span && span->end <= at) continue;
            uint64_t next = span && span->start < end ? span->start : end;
            if (at < next && !other_add_span(other, (struct other_span){.start = at, .end = next}))
                return false;
            if (!span) break;
            at = other->spans[k].end;
        }
    }
    return true;
}

// A word of the module's data may point at the map, which begins a page with the root, or with a header and that.
static bool look_for_map(struct other *other, uint64_t address, const uint8_t *there, size_t room,
                         void *user) {
    struct page_tree *tree = user;
    uint64_t map;
    (void)address, (void)room;
    memcpy(&map, there, sizeof map);
    if (!map || map % SPACE_PAGE_BYTES) return true;
    const struct space_mapping *mapping = space_mapping_at(other->space, map);
    if (!mapping || !mapping->anonymous || !mapping->writable) return true;
    tree->tries_left = LEAVES_TRIED_MAX;
    page_tree_find(tree, map, map + MAP_BYTES);
    return true;
}

// The layout by which most words of a leaf are right, and its tree.
static struct page_tree best_tree(struct other *other, const struct module *module, struct search *search) {
    struct page_tree best = {.right = 0};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct search tried = {.layout = &layouts[i]};
        struct page_tree tree = {.other = other,
                                 .page_bits = SLICE_BITS,
                                 .leaf_bits = LEAF_BITS,
                                 .root_at_most = MAP_HEADER_MAX,
                                 .pages_left = ROOT_PAGES_MAX,
                                 .stretch_of = stretch_of,
                                 .take = take,
                                 .user = &tried};
        (void)other_scan_module(other, module, 8, look_for_map, &tree);
        if (tree.right <= best.right) continue;
        best = tree;
        best.user = search;
        search->layout = &layouts[i];
    }
    return best;
}

bool other_find_mimalloc3(struct other *other, const struct module *module) {
    struct search search = {.arena_count = 0};
    search = (struct search){.layout = NULL};
    struct page_tree tree = best_tree(other, module, &search);
    if (!tree.right) return true;
    if (!page_tree_walk(&tree)) return false;
    if (!other_agrees(other)) {
        other_forget(other);
        return true;
    }
    other->build = search.layout->build;
    other->caches_known = true;
    return take_rest(other, &search);
}
