// SPDX-License-Identifier: Apache-2.0
// jemalloc 5: a tree by page number (its rtree) leads to the record of each extent (edata_t, before 5.3 extent_t): where and how
// long it is, its state, the index of its size class and, of a slab of small blocks, how many are free.
#include <string.h>

#include "other.h"

enum { PAGE_BITS = 12, LEAF_BITS = 18, TINY_BYTES = 8, SIZE_CLASSES_MAX = 232, ACTIVE = 0 };

// Where the fields are in a record's first word, and what its address is a multiple of.
struct layout {
    const char *build;
    uint8_t record_alignment, state_shift, state_bits, class_shift, free_shift;
};

enum { SLAB_SHIFT = 12, CLASS_BITS = 8, FREE_BITS = 10 };

static const struct layout layouts[] = {
    {"jemalloc 5.3", 128, 17, 3, 20, 28},
    {"jemalloc 5.1 and 5.2", 64, 16, 2, 18, 26},
    {"jemalloc 5.0", 64, 15, 2, 17, 25},
};

struct search {
    const struct layout *layout;
    bool shifted;  // a block begins within a page, as they do unless opt.cache_oblivious is false
};

struct record {
    uint64_t bits, address, size_and_number;
};

static uint64_t field(uint64_t word, unsigned shift, unsigned bits) {
    return word >> shift & ((UINT64_C(1) << bits) - 1);
}

uint64_t other_jemalloc_class_bytes(uint64_t class) {
    if (class <= 8) return class ? 16 * class : TINY_BYTES;
    uint64_t group = (class - 5) / 4, step = (class - 5) % 4 + 1;
    return (UINT64_C(64) << group) + (step << (group + 4));
}

static bool record_of(const struct page_tree *tree, uint64_t word, struct record *record) {
    const struct layout *layout = ((const struct search *)tree->user)->layout;
    uint64_t address = (word & ((UINT64_C(1) << 48) - 1)) & ~(uint64_t)(layout->record_alignment - 1);
    return address && other_read(tree->other, address, record, sizeof *record);
}

static bool stretch_of(const struct page_tree *tree, uint64_t word, uint64_t *first, uint64_t *count) {
    const struct layout *layout = ((const struct search *)tree->user)->layout;
    struct record record;
    if (!record_of(tree, word, &record)) return false;
    *first = record.address >> PAGE_BITS;
    *count = record.size_and_number >> PAGE_BITS;
    return *count && !(*first >> 36) && !(*count >> 36) &&
           field(record.bits, layout->class_shift, CLASS_BITS) <= SIZE_CLASSES_MAX;
}

static bool take(struct page_tree *tree, uint64_t word) {
    struct search *search = tree->user;
    const struct layout *layout = search->layout;
    struct other *other = tree->other;
    struct record record;
    other->records++;
    if (!record_of(tree, word, &record)) return other->lost++, true;
    uint64_t class = field(record.bits, layout->class_shift, CLASS_BITS);
    bool slab = field(record.bits, SLAB_SHIFT, 1);
    uint64_t bytes = record.size_and_number & ~(SPACE_PAGE_BYTES - 1),
             start = record.address & ~(SPACE_PAGE_BYTES - 1);
    struct other_span span = {.start = start, .end = start + bytes};
    if (field(record.bits, layout->state_shift, layout->state_bits) != ACTIVE)
        return other_add_span(other, span);
    // The word of an extent's first page repeats what its record says.
    if (word >> 48 != class || (word & 1) != slab) return other->lost++, true;
    span.block_bytes = other_jemalloc_class_bytes(class);
    span.room = span.blocks = 1;
    if (slab) {
        uint64_t unused = field(record.bits, layout->free_shift, FREE_BITS);
        span.room = bytes / span.block_bytes;
        if (bytes % span.block_bytes || unused > span.room) return other->lost++, true;
        span.blocks = span.room - unused;
    } else {
        // A page more than the block, in which it begins anywhere; since 5.3.1, large blocks have any number of pages below
        // their class.
        search->shifted |= record.address % SPACE_PAGE_BYTES != 0;
        if (span.block_bytes > bytes - SPACE_PAGE_BYTES) span.block_bytes = bytes - SPACE_PAGE_BYTES;
    }
    return other_add_span(other, span);
}

// No extent has a page more than its block.
static void fill_extents(struct other *other) {
    for (size_t i = 0; i < other->span_count; i++) {
        struct other_span *span = &other->spans[i];
        uint64_t bytes = span->end - span->start;
        if (span->room == 1 && span->block_bytes == bytes - SPACE_PAGE_BYTES) span->block_bytes = bytes;
    }
}

bool other_find_jemalloc(struct other *other, const struct module *module) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct search search = {.layout = &layouts[i]};
        struct page_tree tree = {.other = other,
                                 .page_bits = PAGE_BITS,
                                 .leaf_bits = LEAF_BITS,
                                 .root_at_most = UINT64_MAX,
                                 .tries_left = ROOT_TRIES_MAX,
                                 .pages_left = ROOT_PAGES_MAX,
                                 .stretch_of = stretch_of,
                                 .take = take,
                                 .user = &search};
        page_tree_find(&tree, module->start, module->end);
        if (!tree.right) continue;
        if (!page_tree_walk(&tree)) return false;
        other->build = layouts[i].build;
        if (!search.shifted) fill_extents(other);
        if (other_agrees(other)) return other_find_jemalloc_caches(other, i > 0);
        other_forget(other);
    }
    return true;
}
