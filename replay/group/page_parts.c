// SPDX-License-Identifier: Apache-2.0
#include "page_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "group_snapshot.h"
#include "group_trace.h"

// The recorded allocator rounds sizes up. What it makes of a size is learned from the nearest next block behind one of that
// size; where too few show it, glibc's rule stands in. A remainder that is too small for a block may come on top.
enum {
    ALIGNMENT = 16,
    CHUNK_HEADER = 8,
    CHUNK_MIN = 32,
    REMAINDER_MAX = 16,
    LEARNED_SIZE_MAX = 65536,
    STRIDES = LEARNED_SIZE_MAX / ALIGNMENT + 2,
    SHOWN_MIN = 4
};

struct stride {
    uint32_t least, shown;
};

static uint64_t chunk_bytes(uint64_t size) {
    uint64_t bytes = (size + CHUNK_HEADER + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return bytes < CHUNK_MIN ? CHUNK_MIN : bytes;
}

static uint64_t page_of(const struct ht_inherited_pages *pages, uint64_t address) {
    return address / pages->page_bytes;
}

// This is the page of the block's last byte, or where that would be in a block of 0 bytes.
static uint64_t last_page(const struct ht_inherited_pages *pages, size_t block) {
    uint64_t bytes = pages->bytes[block] ? pages->bytes[block] : 1;
    return page_of(pages, ht_block_start(pages, block) + bytes - 1);
}

// Whether the page lies in the block with all its bytes.
static bool fills(const struct ht_inherited_pages *pages, size_t block, uint64_t page) {
    uint64_t start = ht_block_start(pages, block), from = page * pages->page_bytes;
    return start <= from && start + pages->bytes[block] >= from + pages->page_bytes;
}

// The pages, at most two, on which the block has parts.
static unsigned pages_with_parts(const struct ht_inherited_pages *pages, size_t block, uint64_t page[2]) {
    if (pages->ended[block] || !pages->bytes[block]) return 0;
    uint64_t first = pages->page[block], last = last_page(pages, block);
    unsigned count = 0;
    if (first < pages->pages && !fills(pages, block, first)) page[count++] = first;
    if (last != first && last < pages->pages && !fills(pages, block, last)) page[count++] = last;
    return count;
}

// first[] from counts of each page, that of page q in first[q + 1], to where the next part of each page goes.
static void sum_up(uint32_t *first, size_t pages) {
    for (size_t q = 0; q < pages; q++) first[q + 1] += first[q];
}

static bool list_parts(const struct ht_inherited_pages *pages, struct ht_page_parts *parts) {
    uint64_t page[2];
    for (size_t i = 0; i < pages->blocks; i++)
        for (unsigned n = pages_with_parts(pages, i, page); n--;) parts->first[page[n] + 1]++;
    sum_up(parts->first, pages->pages);
    parts->block = malloc((parts->first[pages->pages] + 1) * sizeof *parts->block);
    if (!parts->block) return false;
    for (size_t i = 0; i < pages->blocks; i++)
        for (unsigned n = pages_with_parts(pages, i, page); n--;)
            parts->block[parts->first[page[n]]++] = (uint32_t)i;
    memmove(parts->first + 1, parts->first, pages->pages * sizeof *parts->first);
    parts->first[0] = 0;
    return true;
}

// Live blocks by address.
static uint32_t *by_address(const struct ht_inherited_pages *pages, size_t *count) {
    uint32_t *first = calloc(pages->pages + 1, sizeof *first), *order = NULL;
    if (!first) return NULL;
    for (size_t i = 0; i < pages->blocks; i++)
        if (!pages->ended[i] && pages->page[i] < pages->pages) first[pages->page[i] + 1]++;
    sum_up(first, pages->pages);
    *count = first[pages->pages];
    order = malloc((*count + 1) * sizeof *order);
    for (size_t i = 0; order && i < pages->blocks; i++)
        if (!pages->ended[i] && pages->page[i] < pages->pages) order[first[pages->page[i]]++] = (uint32_t)i;
    free(first);
    for (size_t i = 1; order && i < *count; i++) {  // within a page: few, and mostly in order
        uint32_t moved = order[i];
        size_t to = i;
        while (to && pages->page[order[to - 1]] == pages->page[moved] &&
               pages->offset[order[to - 1]] > pages->offset[moved]) {
            order[to] = order[to - 1];
            to--;
        }
        order[to] = moved;
    }
    return order;
}

// Whether the two blocks lie on one run of neighbouring pages.
static bool neighbours(const struct ht_inherited_pages *pages, size_t block, size_t next) {
    return pages->page[next] <= last_page(pages, block) + 1;
}

static size_t stride_number(uint64_t size) { return (size + CHUNK_HEADER + ALIGNMENT - 1) / ALIGNMENT; }

static void learn_strides(const struct ht_inherited_pages *pages, const uint32_t *order, size_t count,
                          struct stride *strides) {
    for (size_t i = 0; i + 1 < count; i++) {
        uint64_t size = pages->bytes[order[i]];
        if (size >= LEARNED_SIZE_MAX || !neighbours(pages, order[i], order[i + 1])) continue;
        uint64_t apart = ht_block_start(pages, order[i + 1]) - ht_block_start(pages, order[i]);
        struct stride *stride = &strides[stride_number(size)];
        if (apart > UINT32_MAX) continue;
        if (!stride->shown++ || apart < stride->least) stride->least = (uint32_t)apart;
    }
}

// What the block takes, as the allocator rounds it.
static uint64_t taken_bytes(const struct stride *strides, uint64_t size) {
    const struct stride *stride = size < LEARNED_SIZE_MAX ? &strides[stride_number(size)] : NULL;
    return (stride && stride->shown >= SHOWN_MIN ? stride->least : chunk_bytes(size)) + REMAINDER_MAX;
}

// A block that begins like one with pages of its own, behind the last of which nothing else begins.
static bool has_own_pages(const struct ht_inherited_pages *pages, size_t block, const uint32_t *next) {
    if (pages->offset[block] > ALIGNMENT || pages->bytes[block] < pages->page_bytes) return false;
    return !next || (pages->page[*next] > last_page(pages, block) && pages->offset[*next] <= ALIGNMENT);
}

static void hole(struct ht_page_parts *parts, uint64_t page) {
    if (parts->kind[page] == HT_PAGE_QUIET) parts->kind[page] = HT_PAGE_HOLED;
}

static void mark_holes(const struct ht_inherited_pages *pages, struct ht_page_parts *parts,
                       const uint32_t *order, size_t count, const struct stride *strides) {
    for (size_t i = 0; i < count; i++) {
        uint32_t block = order[i];
        const uint32_t *next = i + 1 < count ? &order[i + 1] : NULL;
        if (!i || !neighbours(pages, order[i - 1], block))
            if (pages->offset[block] > ALIGNMENT) hole(parts, pages->page[block]);
        uint64_t start = ht_block_start(pages, block),
                 taken = start + taken_bytes(strides, pages->bytes[block]);
        uint64_t end = start + (pages->bytes[block] ? pages->bytes[block] : 1),
                 last = last_page(pages, block);
        bool joined = next && neighbours(pages, block, *next);
        uint64_t until = joined ? ht_block_start(pages, *next) : (last + 1) * pages->page_bytes;
        if (last >= pages->pages || taken >= until || has_own_pages(pages, block, next)) continue;
        if (end < (last + 1) * pages->page_bytes) hole(parts, last);
        if (joined && pages->offset[*next]) hole(parts, pages->page[*next]);
    }
}

static void set_kinds(const struct ht_inherited_pages *pages, struct ht_page_parts *parts) {
    for (size_t q = 0; q < pages->pages; q++) {
        uint8_t state = pages->state[q] & HT_PAGE_STATE_BITS;
        if (state != HT_PAGE_SHARED && state != HT_PAGE_EXCLUSIVE) parts->kind[q] = HT_PAGE_UNKNOWN;
        else parts->kind[q] = pages->state[q] & HT_PAGE_CALLED ? HT_PAGE_MET : HT_PAGE_QUIET;
    }
}

bool ht_page_parts_make(const struct ht_inherited_pages *pages, struct ht_page_parts *parts) {
    assert(pages->page_bytes && pages->blocks < UINT32_MAX / 2);
    *parts = (struct ht_page_parts){.first = calloc(pages->pages + 2, sizeof *parts->first),
                                    .kind = calloc(pages->pages + 1, sizeof *parts->kind)};
    if (!parts->first || !parts->kind || !list_parts(pages, parts)) return false;
    set_kinds(pages, parts);
    size_t count = 0;
    uint32_t *order = by_address(pages, &count);
    struct stride *strides = calloc(STRIDES, sizeof *strides);
    bool good = order && strides;
    if (good) {
        learn_strides(pages, order, count, strides);
        mark_holes(pages, parts, order, count, strides);
    }
    free(strides);
    free(order);
    return good;
}

void ht_page_parts_free(struct ht_page_parts *parts) {
    free(parts->first);
    free(parts->block);
    free(parts->kind);
}

enum {
    EXACT_SIZE_MAX = 65536,
    EXACT_MIN = 200,  // parts that make a size a class of its own
    HALF_OCTAVES = 128,
    EXACTS_MAX = UINT16_MAX / 2 - HALF_OCTAVES
};

bool ht_page_copied(const struct ht_classed_parts *classed, size_t page) {
    return (classed->pages->state[page] & HT_PAGE_STATE_BITS) == HT_PAGE_EXCLUSIVE;
}

bool ht_page_tells(const struct ht_classed_parts *classed, size_t page) {
    const struct ht_page_parts *parts = &classed->parts;
    return parts->first[page] < parts->first[page + 1] && parts->kind[page] != HT_PAGE_UNKNOWN;
}

bool ht_pages_consecutive(const struct ht_page_parts *parts, size_t one, size_t two) {
    uint32_t middle = parts->block[(parts->first[one] + parts->first[one + 1]) / 2];
    uint32_t next = parts->block[(parts->first[two] + parts->first[two + 1]) / 2];
    return next > middle && next - middle <= 2 * (parts->first[two + 1] - parts->first[one]);
}

bool ht_sizes_count(const struct ht_classed_parts *classed, uint32_t **often) {
    const struct ht_page_parts *parts = &classed->parts;
    if (!*often) *often = calloc(EXACT_SIZE_MAX, sizeof **often);
    if (!*often) return false;
    for (size_t q = 0; q < classed->pages->pages; q++)
        for (uint32_t i = parts->first[q]; parts->kind[q] != HT_PAGE_UNKNOWN && i < parts->first[q + 1];
             i++) {
            uint64_t size = classed->pages->bytes[parts->block[i]];
            if (size < EXACT_SIZE_MAX) (*often)[size]++;
        }
    return true;
}

bool ht_size_classes_choose(struct ht_size_classes *classes, const uint32_t *often) {
    uint32_t count = 0;
    for (uint32_t size = 0; often && size < EXACT_SIZE_MAX; size++) count += often[size] >= EXACT_MIN;
    *classes = (struct ht_size_classes){.exact = malloc((count + 1) * sizeof *classes->exact)};
    if (!classes->exact) return false;
    for (uint32_t size = 0; often && size < EXACT_SIZE_MAX; size++)
        if (often[size] >= EXACT_MIN && classes->exacts < EXACTS_MAX)
            classes->exact[classes->exacts++] = size;
    return true;
}

uint32_t ht_part_classes(const struct ht_size_classes *classes) {
    return 2 * (HALF_OCTAVES + classes->exacts);
}

static uint32_t half_octave(uint64_t size) {
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(size | 1);
    return 2 * octave + (octave ? (uint32_t)(size >> (octave - 1)) & 1 : 0);
}

bool ht_part_classes_give(const struct ht_size_classes *classes, struct ht_classed_parts *classed) {
    const struct ht_page_parts *parts = &classed->parts;
    uint16_t *number = calloc(EXACT_SIZE_MAX, sizeof *number);
    classed->class = malloc((parts->first[classed->pages->pages] + (size_t)1) * sizeof *classed->class);
    bool good = number && classed->class;
    for (uint32_t i = 0; good && i < classes->exacts; i++)
        number[classes->exact[i]] = (uint16_t)(HALF_OCTAVES + i);
    for (size_t q = 0; good && q < classed->pages->pages; q++)
        for (uint32_t i = parts->first[q]; i < parts->first[q + 1]; i++) {
            uint64_t size = classed->pages->bytes[parts->block[i]];
            uint32_t of_size = size < EXACT_SIZE_MAX && number[size] ? number[size] : half_octave(size);
            classed->class[i] = (uint16_t)(2 * of_size + (classed->pages->page[parts->block[i]] != q));
        }
    free(number);
    return good;
}

void ht_classed_parts_free(struct ht_classed_parts *classed) {
    ht_page_parts_free(&classed->parts);
    free(classed->class);
}
