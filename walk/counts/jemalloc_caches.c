// SPDX-License-Identifier: Apache-2.0
// jemalloc's caches of threads (tcache_t), which lie in their thread-local memory: an array of bins by size class, each with a
// stack of blocks. The stacks of a cache lie one behind the other, by which they are found.
#include <string.h>

#include "other.h"

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
        if (blocks && !other_add_cached(other, other_jemalloc_class_bytes(i), blocks)) return false;
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
        if (bin.count && !other_add_cached(other, other_jemalloc_class_bytes(class + i), (uint64_t)bin.count))
            return false;
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

bool other_find_jemalloc_caches(struct other *other, bool before_5_3) {
    other->caches_known = true;
    return before_5_3 ? other_scan_rest(other, OLD_LARGE_OFFSET + OLD_LARGE_MAX * BIN_BYTES, look_old, NULL)
                      : other_scan_rest(other, BINS_MIN * BIN_BYTES, look, NULL);
}
