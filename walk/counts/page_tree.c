// SPDX-License-Identifier: Apache-2.0
// A tree of pages is found by what its leaves say: a word in the allocator's data is of the root if it points at an array, the
// words of which point at records of stretches that lie just there.
#include <stdlib.h>
#include <string.h>

#include "other.h"

enum { LOOKED_AT_MAX = 256, GIVEN_UP_AT = 8, RIGHT_ONE_OF = 4, WORDS_PER_PAGE = 512 };

static uint64_t leaf_bytes(const struct page_tree *tree) { return UINT64_C(8) << tree->leaf_bits; }

struct reader {
    const struct other *other;
    uint64_t page;
    bool there;
    uint64_t words[WORDS_PER_PAGE];
};

// The words of the pages in RAM of [start, end), in order. False at the end.
static bool next_page(struct reader *reader, uint64_t *at, uint64_t end) {
    const struct space_runs *runs = &reader->other->runs;
    for (; *at < end; *at += SPACE_PAGE_BYTES) {
        size_t run = space_runs_find(runs, *at);
        if (run == runs->count || runs->run[run].start >= end) return false;
        if (runs->run[run].start > *at) *at = runs->run[run].start;
        if (other_read(reader->other, *at, reader->words, sizeof reader->words)) return true;
    }
    return false;
}

// The number of the leaf that the word at this place of one would be of, or -1.
static int64_t leaf_number(const struct page_tree *tree, uint64_t word, uint64_t place) {
    uint64_t first, count;
    if (!tree->stretch_of(tree, word, &first, &count)) return -1;
    if (!space_mapping_at(tree->other->space, first << tree->page_bits)) return -1;
    for (uint64_t leaf = first >> tree->leaf_bits; leaf <= (first + count - 1) >> tree->leaf_bits; leaf++) {
        uint64_t page = leaf << tree->leaf_bits | place;
        if (page >= first && page < first + count) return (int64_t)leaf;
    }
    return -1;
}

static bool may_be_leaf(const struct page_tree *tree, uint64_t address) {
    if (!address || address % 16) return false;
    const struct space_mapping *mapping = space_mapping_at(tree->other->space, address);
    return mapping && mapping->anonymous && mapping->writable && !mapping->shared;
}

// What is cleared keeps its highest bits in jemalloc's.
static bool is_empty(uint64_t word) { return !(word << 16); }

// How many of a leaf's first words are right, and its number; 0: it is none. Not all must be: tcmalloc leaves behind those of
// stretches that are gone.
static size_t judge_leaf(struct page_tree *tree, uint64_t leaf, uint64_t *number) {
    struct reader reader = {.other = tree->other};
    int64_t first = -1;
    size_t right = 0, looked_at = 0;
    for (uint64_t at = leaf & ~(SPACE_PAGE_BYTES - 1);
         looked_at < LOOKED_AT_MAX && tree->pages_left && next_page(&reader, &at, leaf + leaf_bytes(tree));
         at += SPACE_PAGE_BYTES, tree->pages_left--) {
        for (uint64_t i = 0; i < WORDS_PER_PAGE && looked_at < LOOKED_AT_MAX; i++) {
            uint64_t address = at + 8 * i;
            if (is_empty(reader.words[i]) || address < leaf || address >= leaf + leaf_bytes(tree)) continue;
            int64_t found = leaf_number(tree, reader.words[i], (address - leaf) / 8);
            looked_at++;
            if (first < 0) first = found;
            right += found >= 0 && found == first;
            if (looked_at >= GIVEN_UP_AT && !right) return 0;
        }
    }
    *number = (uint64_t)first;
    return right * RIGHT_ONE_OF >= looked_at ? right : 0;
}

// Whether the process has mapped anything of what the leaves of these numbers are about: others need not be read.
static bool any_mapped(const struct page_tree *tree, uint64_t first, uint64_t last) {
    unsigned bits = tree->leaf_bits + tree->page_bits;
    const struct space_mapping *mapping = space_mapping_from(tree->other->space, first << bits);
    return mapping && mapping->start < (last + 1) << bits;
}

// Whether words from..to may be of a root that begins no further behind the start than it may.
static bool may_be_of_root(const struct page_tree *tree, uint64_t start, uint64_t from, uint64_t to) {
    if (tree->root_at_most == UINT64_MAX) return true;
    uint64_t behind = from > start ? from - start : 0;
    return to > start && any_mapped(tree, behind > tree->root_at_most ? (behind - tree->root_at_most) / 8 : 0,
                                    (to - start) / 8);
}

static void try_word(struct page_tree *tree, uint64_t start, uint64_t place, uint64_t word) {
    uint64_t number = 0;
    if (!may_be_leaf(tree, word) || !may_be_of_root(tree, start, place, place + 8) || !tree->tries_left)
        return;
    tree->tries_left--;
    size_t right = judge_leaf(tree, word, &number);
    uint64_t root = place - number * 8;
    if (right <= tree->right || number * 8 > place - start || root - start > tree->root_at_most) return;
    tree->right = right;
    tree->root = root;
}

void page_tree_find(struct page_tree *tree, uint64_t start, uint64_t end) {
    struct reader reader = {.other = tree->other};
    for (uint64_t at = start & ~(SPACE_PAGE_BYTES - 1);
         at < end && tree->right < LOOKED_AT_MAX && tree->pages_left && tree->tries_left;
         at += SPACE_PAGE_BYTES) {
        if (!may_be_of_root(tree, start, at, at + SPACE_PAGE_BYTES)) continue;
        if (!next_page(&reader, &at, end)) return;
        for (uint64_t i = 0; i < WORDS_PER_PAGE; i++)
            if (at + 8 * i >= start && at + 8 * i < end) try_word(tree, start, at + 8 * i, reader.words[i]);
    }
}

static bool walk_leaf(struct page_tree *tree, uint64_t leaf, uint64_t number) {
    struct reader *reader = malloc(sizeof *reader);
    if (!reader) return false;
    *reader = (struct reader){.other = tree->other};
    bool enough = true;
    for (uint64_t at = leaf & ~(SPACE_PAGE_BYTES - 1);
         enough && next_page(reader, &at, leaf + leaf_bytes(tree)); at += SPACE_PAGE_BYTES)
        for (uint64_t i = 0; enough && i < WORDS_PER_PAGE; i++) {
            uint64_t address = at + 8 * i, first, count;
            if (is_empty(reader->words[i]) || address < leaf || address >= leaf + leaf_bytes(tree)) continue;
            if (tree->stretch_of(tree, reader->words[i], &first, &count) &&
                first == (number << tree->leaf_bits | (address - leaf) / 8))
                enough = tree->take(tree, reader->words[i]);
        }
    free(reader);
    return enough;
}

bool page_tree_walk(struct page_tree *tree) {
    struct reader *reader = malloc(sizeof *reader);
    if (!reader) return false;
    *reader = (struct reader){.other = tree->other};
    uint64_t end = tree->root + (UINT64_C(8) << (48 - tree->page_bits - tree->leaf_bits));
    bool enough = true;
    for (uint64_t at = tree->root & ~(SPACE_PAGE_BYTES - 1); enough && next_page(reader, &at, end);
         at += SPACE_PAGE_BYTES)
        for (uint64_t i = 0; enough && i < WORDS_PER_PAGE; i++) {
            uint64_t place = at + 8 * i;
            uint64_t number = (place - tree->root) / 8;
            if (place >= tree->root && place < end && may_be_leaf(tree, reader->words[i]) &&
                any_mapped(tree, number, number))
                enough = walk_leaf(tree, reader->words[i], number);
        }
    free(reader);
    return enough;
}
