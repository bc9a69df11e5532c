// SPDX-License-Identifier: Apache-2.0
// Heaps of other allocators than glibc's, found from outside without symbols: jemalloc, tcmalloc and mimalloc keep a record
// of each stretch of memory that they have, which says how long it is, of which size its blocks are, how many are in use.
// All three are counts: single blocks are not looked at. What is found is believed only if the records agree with each other.
#ifndef HEAPTAPE_WALK_OTHER_H
#define HEAPTAPE_WALK_OTHER_H

#include "modules.h"

// A stretch with blocks of one size, or with none: free, or the allocator's own data.
struct other_span {
    uint64_t start, end, block_bytes, blocks, room;  // blocks in use, and how many fit in
    bool shifted;  // the block may begin before the address that the program has, which is aligned
};

struct other_size {
    uint64_t block_bytes, blocks, free_blocks, cached_blocks;
};

struct other {
    struct space *space;
    struct space_runs runs;  // of the whole process
    struct other_span *spans;
    size_t span_count, span_room;
    struct other_size *sizes;  // by size, once summed up
    size_t size_count, size_room;
    bool caches_known;  // blocks that threads' caches hold are not among those in use
    const char *build;  // whose layout it is, such as "jemalloc 5.3"
    // Checks.
    uint64_t shifted_bytes;
    uint64_t records, lost;  // how many were looked at, and how many of them contradict others
    // Sums.
    uint64_t blocks, usable_bytes, cached_bytes;
    uint64_t live_resident_bytes, holes_resident_bytes, free_resident_bytes;
};

// Whether heaps of an allocator of that name are known at all.
bool other_walks(const char *allocator);
// Finds and counts the heap of the allocator of that name, whose data are the module's. 0 or -1 with error; *found tells
// whether there is one that agrees with itself.
int other_walk(struct other *other, struct space *space, const char *allocator, const struct module *module,
               bool *found, struct ht_error *error);
void other_free(struct other *other);

// ---- for the allocators' files ----

// Each adds spans. False for want of memory.
bool other_find_jemalloc(struct other *other, const struct module *module);
bool other_find_tcmalloc(struct other *other, const struct module *module);
bool other_find_mimalloc2(struct other *other);
bool other_find_mimalloc3(struct other *other, const struct module *module);

bool other_add_span(struct other *other, struct other_span span);
// The last size, if it is that one, or a new one; those that are alike are merged later. NULL for want of memory.
struct other_size *other_size_of(struct other *other, uint64_t block_bytes);
// Blocks of that size that a cache holds, in a span or beside the count of it.
bool other_add_cached(struct other *other, uint64_t block_bytes, uint64_t blocks);
void other_order_spans(struct other *other);
// Leaves out those that share a byte with another one, or are not in memory of the process's own.
void other_check_spans(struct other *other);
// Whether hardly any record contradicts others.
bool other_agrees(const struct other *other);
// Forgets all that was added.
void other_forget(struct other *other);
// Only what is in RAM is read. False: not all of it is.
bool other_read(const struct other *other, uint64_t address, void *to, size_t bytes);

// Calls `look` for each word in RAM of the module's data, or that is in no span, with how many bytes there are from there on
// (`bytes` to OTHER_LOOK_BYTES), until it is false, as it returns then.
enum { OTHER_LOOK_BYTES = 8192 };
typedef bool (*other_look)(struct other *other, uint64_t address, const uint8_t *there, size_t room,
                           void *user);
bool other_scan_module(struct other *other, const struct module *module, size_t bytes, other_look look,
                       void *user);
bool other_scan_rest(struct other *other, size_t bytes, other_look look, void *user);

// A tree of two levels by page number: an array points at leaves, each an array of words that point at the record of the
// stretch that their page belongs to.
enum { ROOT_TRIES_MAX = 65536, ROOT_PAGES_MAX = 1 << 18 };

struct page_tree {
    struct other *other;
    uint64_t root;
    size_t right;
    unsigned page_bits, leaf_bits;
    uint64_t root_at_most;          // how far from where it is looked for
    size_t tries_left, pages_left;  // of words that may be of the root, and of leaves' pages
    // The stretch that a leaf's word tells of, in pages. False: it is no such word.
    bool (*stretch_of)(const struct page_tree *tree, uint64_t word, uint64_t *first, uint64_t *count);
    // Called for the word of each stretch's first page. False for want of memory.
    bool (*take)(struct page_tree *tree, uint64_t word);
    void *user;
};

// Looks for the root among these addresses: that whose leaf has the most words that are right, `right` of them, 0 at first.
void page_tree_find(struct page_tree *tree, uint64_t start, uint64_t end);
bool page_tree_walk(struct page_tree *tree);

#endif
