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

// Four classes a doubling, from 16 bytes apart on; the first is of 8 bytes.
static uint64_t class_bytes(uint64_t class) {
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
    span.block_bytes = class_bytes(class);
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

// ---- caches of threads (tcache_t) ----
//
// They lie in their thread-local memory: an array of bins by size class, each with a
// stack of blocks. The stacks of a cache lie one behind the other, by which they are found.

enum {
    BIN_BYTES = 24,
    BINS_MIN = 36,  // those of small blocks
    BINS_MAX = 232,
    CACHED_MAX = 8192,
    STACK_OFFSET = 8,  // in its allocation, which begins a page
};

// A bin of 5.3: where its stack's top is, and the lower halves of where its stack begins and ends.
struct bin {
    uint64_t head, requests;
    uint16_t low_water, full, empty, room;
};

// Of 5.0 to 5.2.
struct old_bin {
    int32_t low_water, count;
    uint64_t requests, end;
};

struct stack {
    uint64_t start, end, blocks;
};

static struct stack stack_of(const struct bin *bin) {
    uint64_t end = bin->head + (uint16_t)(bin->empty - (uint16_t)bin->head);
    return (struct stack){bin->head - (uint16_t)((uint16_t)bin->head - bin->full), end,
                          (end - bin->head) / 8};
}

static struct bin bin_at(const uint8_t *there, size_t number) {
    struct bin bin;
    memcpy(&bin, there + number * BIN_BYTES, sizeof bin);
    return bin;
}

static size_t count_bins(const uint8_t *there, size_t room) {
    struct bin first = bin_at(there, 0);
    if (first.head % 8 || first.head < SPACE_PAGE_BYTES || first.head >> 47) return 0;
    struct stack stack = stack_of(&first);
    if (stack.start % SPACE_PAGE_BYTES != STACK_OFFSET) return 0;
    for (size_t i = 1; i < room; i++) {
        struct bin bin = bin_at(there, i);
        struct stack next = stack_of(&bin);
        if (bin.head % 8 || next.start != stack.end || next.start >= next.end) return i;
        stack = next;
    }
    return room;
}

static bool look(struct other *other, uint64_t address, const uint8_t *there, size_t room, void *user) {
    (void)address, (void)user;
    size_t count = count_bins(there, room / BIN_BYTES < BINS_MAX ? room / BIN_BYTES : BINS_MAX);
    if (count < BINS_MIN) return true;
    for (size_t i = 0; i < count; i++) {
        struct bin bin = bin_at(there, i);
        uint64_t blocks = stack_of(&bin).blocks;
        if (blocks && !other_add_cached(other, class_bytes(i), blocks)) return false;
    }
    return true;
}

// tcache_t of 5.0 to 5.2: behind the bins of small blocks is a description that points back at them, and at those of large ones.
enum {
    OLD_DESCRIPTION_OFFSET = BINS_MIN * BIN_BYTES + 56,
    OLD_LARGE_OFFSET = BINS_MIN * BIN_BYTES + 120,
    OLD_LARGE_MAX = 5
};

static bool add_old_bins(struct other *other, const uint8_t *there, size_t count, size_t class,
                         uint64_t *end) {
    for (size_t i = 0; i < count; i++) {
        struct old_bin bin;
        memcpy(&bin, there + i * BIN_BYTES, sizeof bin);
        if (bin.count < 0 || bin.count > CACHED_MAX || bin.end <= *end) return true;
        *end = bin.end;
        if (bin.count && !other_add_cached(other, class_bytes(class + i), (uint64_t)bin.count)) return false;
    }
    return true;
}

static bool look_old(struct other *other, uint64_t address, const uint8_t *there, size_t room, void *user) {
    (void)room, (void)user;
    uint64_t back[2], end = 0;
    memcpy(back, there + OLD_DESCRIPTION_OFFSET, sizeof back);
    if (back[0] != address || back[1] != address + OLD_LARGE_OFFSET) return true;
    return add_old_bins(other, there, BINS_MIN, 0, &end) &&
           add_old_bins(other, there + OLD_LARGE_OFFSET, OLD_LARGE_MAX, BINS_MIN, &end);
}

static bool find_caches(struct other *other, bool before_5_3) {
    other->caches_known = true;
    return before_5_3 ? other_scan_rest(other, OLD_LARGE_OFFSET + OLD_LARGE_MAX * BIN_BYTES, look_old, NULL)
                      : other_scan_rest(other, BINS_MIN * BIN_BYTES, look, NULL);
}

// ---- all of it ----

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
        if (other_agrees(other)) return find_caches(other, i > 0);
        other_forget(other);
    }
    return true;
}
