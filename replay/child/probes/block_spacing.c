// SPDX-License-Identifier: Apache-2.0
#include "block_spacing.h"

#include "allocator_calls.h"

enum { PAGE_BYTES = HT_SNAPSHOT_PAGE_BYTES };

// An allocator that reports the requested bytes as usable shows its headers where a size fills what it is rounded to, so
// all small sizes are tried. Many of each: some allocators place neighbours at random.
enum { SMALLEST = 17, LARGEST = 48, OF_EACH = 16, SMALL_BLOCKS = (LARGEST - SMALLEST + 1) * OF_EACH };
// Of a large size this many blocks are allocated in a row, up to some bytes; sizes are four to a doubling.
enum { FEWEST = 8, MOST = 64, ROW_BYTES = 4 << 20, LARGEST_POWER = 20, SMALLEST_POWER = 13 };

struct block {
    uint64_t start, end;
};

static struct block allocate(const struct ht_server *server, uint64_t bytes) {
    void *block = HT_CALL_MALLOC(bytes);
    uint64_t start = (uintptr_t)block;
    if (!block) return (struct block){0};
    return (struct block){start, start + (server->usable_size ? server->usable_size(block) : bytes)};
}

// The least distance between the end of one block and the start of the next.
static uint64_t least_gap(const struct block *blocks, unsigned count) {
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < count && blocks[i].end; k++) {
            uint64_t gap = blocks[k].start - blocks[i].end;
            if (blocks[k].start >= blocks[i].end && gap < least) least = gap;
        }
    }
    return least;
}

static bool share_pages(const struct block *one, const struct block *other) {
    return one->start / PAGE_BYTES <= (other->end - 1) / PAGE_BYTES &&
           other->start / PAGE_BYTES <= (one->end - 1) / PAGE_BYTES;
}

// Whether blocks of this size have their pages for themselves; then spacing knows of them, too.
static bool have_own_pages(const struct ht_server *server, uint64_t bytes, struct ht_block_spacing *spacing) {
    struct block blocks[MOST];
    unsigned count = bytes * MOST < ROW_BYTES     ? MOST
                     : bytes * FEWEST > ROW_BYTES ? FEWEST
                                                  : (unsigned)(ROW_BYTES / bytes);
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = allocate(server, bytes);
        if (!blocks[i].end) return false;
        for (unsigned k = 0; k < i; k++)
            if (share_pages(&blocks[i], &blocks[k])) return false;
    }
    for (unsigned i = 0; i < count; i++) {
        uint64_t usable = blocks[i].end - blocks[i].start, offset = blocks[i].start % PAGE_BYTES;
        if (usable < spacing->own_pages_from_bytes) spacing->own_pages_from_bytes = usable;
        if (spacing->own_pages_offset == HT_OFFSET_UNSEEN) spacing->own_pages_offset = offset;
        else if (spacing->own_pages_offset != offset) spacing->own_pages_offset = HT_OFFSET_ANY;
    }
    return true;
}

struct ht_block_spacing ht_block_spacing_measure(const struct ht_server *server) {
    static struct block blocks[SMALL_BLOCKS];
    struct ht_block_spacing spacing = {.own_pages_from_bytes = UINT64_MAX,
                                       .own_pages_offset = HT_OFFSET_UNSEEN};
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) blocks[i] = allocate(server, SMALLEST + i / OF_EACH);
    uint64_t gap = least_gap(blocks, SMALL_BLOCKS);
    // What is no smaller than a block may be a free one.
    if (gap < SMALLEST) spacing.header_bytes = gap;
    // From the largest size down to the first whose blocks share a page. No size is a multiple of the page: such blocks
    // would show nothing.
    for (unsigned i = 4 * LARGEST_POWER; i >= 4 * SMALLEST_POWER; i--) {
        uint64_t bytes = ((UINT64_C(4) + i % 4) << i / 4) / 4 + 40;
        if (!have_own_pages(server, bytes, &spacing)) break;
    }
    return spacing;
}

struct ht_block_margin ht_block_margin(const struct ht_block_spacing *spacing, uint64_t address,
                                       uint64_t usable_bytes) {
    uint64_t end = address + usable_bytes, offset = address % PAGE_BYTES;
    if (usable_bytes >= spacing->own_pages_from_bytes &&
        (spacing->own_pages_offset == HT_OFFSET_ANY || spacing->own_pages_offset == offset))
        return (struct ht_block_margin){address - offset, (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES};
    return (struct ht_block_margin){address - spacing->header_bytes, end};
}
