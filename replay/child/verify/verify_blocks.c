// SPDX-License-Identifier: Apache-2.0
#include "verify_blocks.h"

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <string.h>

#include "replay_form.h"

enum { WORD = sizeof(uint64_t) };
typedef uint64_t __attribute__((may_alias, aligned(1))) loose_word;

static uint64_t word_at(uint64_t seed, uint64_t index) {
    uint64_t mixed = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
    return mixed ^ mixed >> 29;
}

static void fill_span(uint64_t seed, char *block, uint64_t from, uint64_t to) {
    uint64_t at = from;
    for (; at % WORD == 0 && to - at >= WORD; at += WORD) {
        *(loose_word *)(block + at) = word_at(seed, at / WORD);
    }
    while (at < to) {
        uint64_t word = word_at(seed, at / WORD), in_word = at % WORD, bytes = WORD - in_word;
        if (bytes > to - at) bytes = to - at;
        memcpy(block + at, (const char *)&word + in_word, bytes);
        at += bytes;
    }
}

static bool span_holds(uint64_t seed, const char *block, uint64_t from, uint64_t to, uint64_t *offset,
                       uint8_t *expected, uint8_t *found) {
    uint64_t at = from;
    while (at % WORD == 0 && to - at >= WORD &&
           *(const loose_word *)(block + at) == word_at(seed, at / WORD)) {
        at += WORD;
    }
    while (at < to) {
        uint64_t word = word_at(seed, at / WORD), in_word = at % WORD, bytes = WORD - in_word;
        if (bytes > to - at) bytes = to - at;
        const char *wanted = (const char *)&word + in_word;
        if (memcmp(block + at, wanted, bytes)) {
            while (block[at] == *wanted) at++, wanted++;
            *offset = at;
            *expected = (uint8_t)*wanted;
            *found = (uint8_t)block[at];
            return false;
        }
        at += bytes;
    }
    return true;
}

// The i-th span of a block, cut at `limit`. False: there are no more.
static bool span(const struct ht_pattern *pattern, uint64_t i, uint64_t limit, uint64_t *from, uint64_t *to) {
    bool sparse = pattern->sparse && pattern->bytes >= HT_TOUCH_PAGE_BYTES;
    bool whole = pattern->bytes < HT_PATTERN_WHOLE_BYTES && !sparse;
    uint64_t pages = (pattern->bytes + HT_TOUCH_PAGE_BYTES - 1) / HT_TOUCH_PAGE_BYTES;
    if (pages > pattern->pages) pages = pattern->pages;
    uint64_t last = whole ? 0 : pages;
    if (i > last + 1) return false;
    if (i > last) {
        uint64_t beyond = pattern->usable > pattern->bytes ? pattern->usable - pattern->bytes : 0;
        *from = pattern->usable - (beyond < HT_PATTERN_SPAN_BYTES ? beyond : HT_PATTERN_SPAN_BYTES);
        *to = pattern->usable;
    } else if (whole) {
        *from = 0;
        *to = pattern->bytes;
    } else {
        *from = i < last ? i * HT_TOUCH_PAGE_BYTES : pattern->bytes - HT_PATTERN_SPAN_BYTES;
        *to = *from + HT_PATTERN_SPAN_BYTES;
        if (*to > pattern->bytes) *to = pattern->bytes;
    }
    if (*to > limit) *to = limit;
    if (*from > *to) *from = *to;
    return true;
}

void ht_pattern_fill(const struct ht_pattern *pattern, char *block) {
    uint64_t from, to;
    for (uint64_t i = 0; span(pattern, i, UINT64_MAX, &from, &to); i++) {
        fill_span(pattern->seed, block, from, to);
    }
}

void ht_pattern_extend(struct ht_pattern *pattern, char *block, uint64_t pages) {
    uint64_t from, to, i = pattern->pages;
    if (pages <= i) return;
    pattern->pages = pages;
    for (; span(pattern, i, UINT64_MAX, &from, &to); i++) fill_span(pattern->seed, block, from, to);
}

bool ht_pattern_holds(const struct ht_pattern *pattern, const char *block, uint64_t bytes, uint64_t *offset,
                      uint8_t *expected, uint8_t *found) {
    uint64_t from, to;
    for (uint64_t i = 0; span(pattern, i, bytes, &from, &to); i++) {
        if (!span_holds(pattern->seed, block, from, to, offset, expected, found)) return false;
    }
    return true;
}

static bool zeros(const char *block, uint64_t from, uint64_t to, uint64_t *offset, uint8_t *found) {
    static const char page[HT_TOUCH_PAGE_BYTES];
    for (uint64_t at = from; at < to; at += sizeof page) {
        uint64_t bytes = to - at < sizeof page ? to - at : sizeof page;
        if (!memcmp(block + at, page, bytes)) continue;
        while (!block[at]) at++;
        *offset = at;
        *found = (uint8_t)block[at];
        return false;
    }
    return true;
}

bool ht_all_zeros(const char *block, uint64_t bytes, uint64_t *offset, uint8_t *found) {
    const uint64_t page = HT_TOUCH_PAGE_BYTES;
    if (bytes <= HT_ZEROS_WHOLE_BYTES) return zeros(block, 0, bytes, offset, found);
    uint64_t pages = bytes / page, step = pages / (HT_ZEROS_WHOLE_BYTES / page) + 1;
    for (uint64_t at = 0; at < pages; at += step) {
        if (!zeros(block, at * page, (at + 1) * page, offset, found)) return false;
    }
    return zeros(block, bytes - page, bytes, offset, found);
}

void ht_verify_count(struct ht_verify_findings *findings, enum ht_violation_kind kind) {
    atomic_fetch_add(&findings->counts[kind], 1);
    atomic_fetch_add(&findings->violations, 1);
}

void ht_verify_tell(struct ht_verify_findings *findings, const struct ht_violation *violation) {
    ht_verify_count(findings, violation->kind);
    uint64_t number = atomic_fetch_add(&findings->told, 1);
    if (number >= HT_VIOLATIONS_REPORTED) return;
    struct ht_violation *reported = &findings->first[number];
    *reported = *violation;
    atomic_store(&reported->written, 1);
}

uint64_t ht_verify_alignment(uint64_t bytes) {
    if (bytes >= alignof(max_align_t)) return alignof(max_align_t);
    return bytes ? 1ull << (63 - __builtin_clzll(bytes)) : 1;
}

void ht_verify_raise(_Atomic uint64_t *most, uint64_t value) {
    uint64_t known = atomic_load_explicit(most, memory_order_relaxed);
    while (value > known && !atomic_compare_exchange_weak(most, &known, value)) continue;
}

// A treap: a search tree by address and a heap by a hash of the slot, which keeps it shallow whatever order
// the addresses come in. Blocks with the same address are distinguished by slot.

static struct ht_map_node *node_of(struct ht_map_nodes nodes, uint32_t slot) {
    return (struct ht_map_node *)(nodes.first + nodes.stride * slot);
}

static uint32_t priority(uint32_t slot) {
    uint64_t mixed = (slot + 1) * 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ull;
    return (uint32_t)(mixed >> 32);
}

// Whether slot a comes before slot b.
static bool before(struct ht_map_nodes nodes, uint32_t a, uint32_t b) {
    uint64_t start_a = node_of(nodes, a)->start, start_b = node_of(nodes, b)->start;
    return start_a != start_b ? start_a < start_b : a < b;
}

static bool above(uint32_t a, uint32_t b) {
    uint32_t priority_a = priority(a), priority_b = priority(b);
    return priority_a != priority_b ? priority_a > priority_b : a > b;
}

// Those before `slot` go to *low, the others to *high.
static void split(struct ht_map_nodes nodes, uint32_t tree, uint32_t slot, uint32_t *low, uint32_t *high) {
    while (tree != HT_MAP_NONE) {
        struct ht_map_node *node = node_of(nodes, tree);
        if (before(nodes, tree, slot)) {
            *low = tree;
            low = &node->right;
            tree = node->right;
        } else {
            *high = tree;
            high = &node->left;
            tree = node->left;
        }
    }
    *low = *high = HT_MAP_NONE;
}

// All of low come before all of high.
static void merge(struct ht_map_nodes nodes, uint32_t low, uint32_t high, uint32_t *tree) {
    while (low != HT_MAP_NONE && high != HT_MAP_NONE) {
        if (above(low, high)) {
            *tree = low;
            tree = &node_of(nodes, low)->right;
            low = *tree;
        } else {
            *tree = high;
            tree = &node_of(nodes, high)->left;
            high = *tree;
        }
    }
    *tree = low != HT_MAP_NONE ? low : high;
}

// Where nothing in the map overlapped, the neighbours are all that a new block can overlap. Where something
// did, that was reported already.
static uint32_t overlapped(struct ht_verify_map *map, struct ht_map_nodes nodes, uint32_t slot) {
    struct ht_map_node *mine = node_of(nodes, slot);
    uint32_t previous = HT_MAP_NONE, next = HT_MAP_NONE;
    for (uint32_t at = map->root; at != HT_MAP_NONE;) {
        if (before(nodes, at, slot)) {
            previous = at;
            at = node_of(nodes, at)->right;
        } else {
            next = at;
            at = node_of(nodes, at)->left;
        }
    }
    if (previous != HT_MAP_NONE) {
        struct ht_map_node *node = node_of(nodes, previous);
        if (mine->start - node->start < node->bytes) return previous;
    }
    if (next != HT_MAP_NONE && node_of(nodes, next)->start - mine->start < mine->bytes) return next;
    return HT_MAP_NONE;
}

uint32_t ht_map_add(struct ht_verify_map *map, struct ht_map_nodes nodes, uint32_t slot) {
    struct ht_map_node *mine = node_of(nodes, slot);
    uint32_t *place = &map->root, other = overlapped(map, nodes, slot);
    while (*place != HT_MAP_NONE && above(*place, slot)) {
        struct ht_map_node *node = node_of(nodes, *place);
        place = before(nodes, *place, slot) ? &node->right : &node->left;
    }
    split(nodes, *place, slot, &mine->left, &mine->right);
    *place = slot;
    return other;
}

void ht_map_remove(struct ht_verify_map *map, struct ht_map_nodes nodes, uint32_t slot) {
    struct ht_map_node *mine = node_of(nodes, slot);
    uint32_t *place = &map->root;
    while (*place != slot) {
        assert(*place != HT_MAP_NONE);
        struct ht_map_node *node = node_of(nodes, *place);
        place = before(nodes, *place, slot) ? &node->right : &node->left;
    }
    merge(nodes, mine->left, mine->right, place);
}
