// SPDX-License-Identifier: Apache-2.0
// Which stack does an allocation come from? Programs allocate in sequences: a hook with the same key mostly comes, after the
// same two sites, from the same stack (CPython's JSON work: 98.8 %). So a thread has a table of them; the stack that is
// expected is compared with the one at hand by a sum of the words by which the tree (stack_tree.h) would have gone.
#ifndef HEAPTAPE_EXPECTED_STACK_H
#define HEAPTAPE_EXPECTED_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "attributes.h"
#include "raw_append.h"
#include "stack_tree.h"

// A thread's table: lines by the sites, places in each by the key.
enum { EXPECTED_LINE_BITS = 11, EXPECTED_PLACE_BITS = 5 };
struct expected_line {
    _Alignas(64) uint16_t path_number[1 << EXPECTED_PLACE_BITS];
};

// A thread knows this, in its thread-local storage. A signal handler may change it at any point: then another stack is
// expected.
struct expectation {
    struct expected_line *table;  // NULL: the thread does not expect anything
    uint64_t last_hash;           // of the last site
    uint64_t pair_hash;           // of the last two
    uint32_t line;                // by them: a number, because a handler may set the table meanwhile
};

// A stack that may be expected, and the record of its site. Half a cache line, of which only the path's `changes` may change
// while others read it.
struct expected_path {
    _Alignas(32) struct tree_path path;
    uint32_t modifier_bytes;
    uint64_t modifier;
};
_Static_assert(sizeof(struct expected_path) == 32, "two paths are a cache line");

static inline uint32_t expected_site(const struct expected_path *path) {
    return (uint32_t)ht_modifier_value(path->modifier);
}

// The paths by number. The first one is that of no stack.
extern HIDDEN const struct expected_path *expected_paths;

// Before the first recording of the process.
HIDDEN void expected_start(void);
// Address space that is reserved for more paths goes back, and there are no more tables.
HIDDEN void expected_give_up_space(void);
// The calling thread begins to expect stacks. False: there is no memory.
HIDDEN bool expected_begin(struct expectation *expectation);

// The place of the number of the path that is expected of a hook whose key has such a hash.
static inline uint16_t *expected_number(const struct expectation *expectation, uint64_t hash) {
    uint64_t place = (hash ^ expectation->pair_hash) >> (64 - EXPECTED_PLACE_BITS);
    return &expectation->table[expectation->line].path_number[place];
}

// It was another one, which is expected next time.
HIDDEN void expected_other(const struct expectation *expectation, const struct tree_found *found);

// The next stack comes after this site.
static inline void expected_after(struct expectation *expectation, uint32_t site) {
    uint64_t hash = site * SITE_MULTIPLIER, last = expectation->last_hash;
    expectation->last_hash = hash;
    expectation->pair_hash = hash ^ (last << 32 | last >> 32);
    // The place in the line has other bits of it.
    expectation->line = (uint32_t)expectation->pair_hash >> (32 - EXPECTED_LINE_BITS);
}

// Fetches the line that the next call needs while the program works. There must be a table.
static inline void expected_fetch(const struct expectation *expectation) {
    __builtin_prefetch(&expectation->table[expectation->line]);
}

#endif
