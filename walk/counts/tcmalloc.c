// SPDX-License-Identifier: Apache-2.0
// gperftools' tcmalloc: a tree by page number (its pagemap) leads to the record of each span: where and how long it is, its size
// class and how many of its blocks were handed out, be it to threads' caches or to the lists between those and the spans.
#include <stddef.h>
#include <string.h>

#include "other.h"

enum {
    PAGE_BITS = 13,
    LEAF_BITS = 18,
    PAGES_BITS_MAX = 35,
    CLASSES_MAX = 128,
    IN_USE = 0,
    SMALL_BYTES_MAX = 256 << 10
};

struct record {
    uint64_t start, pages, links[2], blocks;
    uint32_t bits;
};

struct tcmalloc {
    int32_t moved[CLASSES_MAX], bytes[CLASSES_MAX];  // SizeMap: blocks that move at once, and of what size
    size_t classes;
};

static struct tcmalloc *of(const struct page_tree *tree) { return tree->user; }

static bool stretch_of(const struct page_tree *tree, uint64_t word, uint64_t *first, uint64_t *count) {
    struct record record;
    if (word % 8 || !other_read(tree->other, word, &record, sizeof record)) return false;
    *first = record.start;
    *count = record.pages;
    return record.pages && !(record.start >> PAGES_BITS_MAX) && !(record.pages >> PAGES_BITS_MAX);
}

static bool take(struct page_tree *tree, uint64_t word) {
    struct other *other = tree->other;
    struct record record;
    if (!other_read(other, word, &record, sizeof record)) return other->lost++, true;
    uint64_t class = record.bits >> 16 & 255, location = record.bits >> 24 & 3;
    struct other_span span = {.start = record.start << PAGE_BITS,
                              .end = (record.start + record.pages) << PAGE_BITS};
    other->records++;
    if (location != IN_USE) return other_add_span(other, span);
    if (class >= of(tree)->classes) return other->lost++, true;
    span.block_bytes = class ? (uint64_t)of(tree)->bytes[class] : span.end - span.start;
    span.room = class ? (span.end - span.start) / span.block_bytes : 1;
    span.blocks = class ? record.bits & 0xffff : 1;
    return other_add_span(other, span);
}

// ---- size classes ----

// From 0 on, they grow up to the largest; as many numbers before them are of the blocks that move at once.
static size_t classes_at(const int32_t *bytes, const int32_t *moved, size_t room) {
    if (bytes[0] || bytes[1] < 8 || bytes[1] > 16) return 0;
    for (size_t i = 1; i < room; i++) {
        if (bytes[i] <= bytes[i - 1] || bytes[i] % 8 || moved[i] < 2 || moved[i] > 65536) return 0;
        if (bytes[i] == SMALL_BYTES_MAX) return i + 1;
    }
    return 0;
}

// The array is at a multiple of 4.
static bool look_for_classes(struct other *other, uint64_t address, const uint8_t *there, size_t room,
                             void *user) {
    struct tcmalloc *tcmalloc = user;
    (void)other, (void)address, (void)room;
    for (size_t i = 0; i < 8 && !tcmalloc->classes; i += 4) {
        memcpy(tcmalloc->moved, there + i, sizeof tcmalloc->moved);
        memcpy(tcmalloc->bytes, there + i + sizeof tcmalloc->moved, sizeof tcmalloc->bytes);
        tcmalloc->classes = classes_at(tcmalloc->bytes, tcmalloc->moved, CLASSES_MAX);
    }
    return !tcmalloc->classes;
}

// ---- caches ----

// ThreadCache begins with a list of each class.
struct list {
    uint64_t first;
    uint32_t length, low_water, length_max, overages;
    int32_t block_bytes, unused;
};

static bool look_for_cache(struct other *other, uint64_t address, const uint8_t *there, size_t room,
                           void *user) {
    const struct tcmalloc *looked_for = user;
    struct list lists[CLASSES_MAX];
    (void)address;
    size_t classes = looked_for->classes;
    memcpy(&lists[1], there + sizeof *lists, sizeof *lists);
    if (lists[1].block_bytes != looked_for->bytes[1] || classes * sizeof *lists > room) return true;
    memcpy(lists, there, classes * sizeof *lists);
    for (size_t i = 1; i < classes; i++)
        if (lists[i].block_bytes != looked_for->bytes[i] || lists[i].low_water > lists[i].length) return true;
    other->caches_known = true;
    for (size_t i = 1; i < classes; i++)
        if (lists[i].length && !other_add_cached(other, (uint64_t)lists[i].block_bytes, lists[i].length))
            return false;
    return true;
}

// CentralFreeList, an array by class: a lock, the class, two lists of spans, two counts, 64 slots of blocks that move at once,
// how many are used, and two bounds of that.
struct central {
    uint64_t lock, class, spans[12], span_count, free_count, slots[128];
    int32_t used_slots, slots_room, slots_max;
};

enum { CENTRAL_STRIDE_MIN = 1168, CENTRAL_STRIDE_MAX = 1280, SLOTS_MAX = 64 };

static bool central_at(const struct other *other, uint64_t address, uint64_t class, struct central *central) {
    return other_read(other, address, central, sizeof *central) && central->class == class &&
           central->used_slots >= 0 && central->used_slots <= central->slots_room &&
           central->slots_room <= central->slots_max && central->slots_max <= SLOTS_MAX;
}

static bool add_central(struct other *other, const struct tcmalloc *tcmalloc, uint64_t address,
                        uint64_t stride) {
    struct central central;
    for (size_t i = 1; i < tcmalloc->classes; i++)
        if (!central_at(other, address + i * stride, i, &central)) return false;
    for (size_t i = 1; i < tcmalloc->classes; i++) {
        if (!central_at(other, address + i * stride, i, &central)) return false;
        uint64_t blocks = (uint64_t)central.used_slots * (uint64_t)tcmalloc->moved[i];
        if (blocks && !other_add_cached(other, (uint64_t)tcmalloc->bytes[i], blocks)) return false;
    }
    return true;
}

static bool look_for_central(struct other *other, uint64_t address, const uint8_t *there, size_t room,
                             void *user) {
    uint64_t class;
    (void)room;
    memcpy(&class, there + offsetof(struct central, class), sizeof class);
    for (uint64_t stride = CENTRAL_STRIDE_MIN; class == 1 && stride <= CENTRAL_STRIDE_MAX; stride += 8)
        if (add_central(other, user, address - stride, stride)) return false;
    return true;
}

bool other_find_tcmalloc(struct other *other, const struct module *module) {
    struct tcmalloc tcmalloc = {.classes = 0};
    struct page_tree tree = {.other = other,
                             .page_bits = PAGE_BITS,
                             .leaf_bits = LEAF_BITS,
                             .root_at_most = UINT64_MAX,
                             .tries_left = ROOT_TRIES_MAX,
                             .pages_left = ROOT_PAGES_MAX,
                             .stretch_of = stretch_of,
                             .take = take,
                             .user = &tcmalloc};
    if (other_scan_module(other, module, 8 * CLASSES_MAX + 4, look_for_classes, &tcmalloc)) return true;
    page_tree_find(&tree, module->start, module->end);
    if (!tree.right) return true;
    if (!page_tree_walk(&tree)) return false;
    if (other_scan_module(other, module, 16, look_for_central, &tcmalloc) ||
        !other_scan_rest(other, 2 * sizeof(struct list), look_for_cache, &tcmalloc))
        return true;
    other->build = "gperftools tcmalloc 2";
    return true;
}
