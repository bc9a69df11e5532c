// Which stack does an allocation come from? Programs allocate in sequences: a hook with the same key mostly comes, after the
// same two sites, from the same stack (CPython's JSON work: 98.5 %). So a thread has a table of them; the stack that is
// expected is compared with the one at hand by the words by which the tree (stack_tree.h) would have gone.
#ifndef HEAPTAPE_EXPECTED_STACK_H
#define HEAPTAPE_EXPECTED_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "attributes.h"
#include "stack_tree.h"

enum { EXPECTED_BITS = 12 };

// What a thread knows, in its thread-local storage. A signal handler may change it at any point: then another stack is
// expected.
struct expectation {
    uint16_t *path_numbers;  // by key and sites; NULL: the thread does not expect anything
    uint64_t last_sites;     // the last one in the low half
};

// By number. The first one is that of no stack.
extern HIDDEN const struct tree_path *expected_paths;

// Before the first recording of the process.
HIDDEN void expected_start(void);
// Address space that is reserved for more paths goes back.
HIDDEN void expected_give_up_space(void);
// The calling thread begins to expect stacks. False: there is no memory.
HIDDEN bool expected_begin(struct expectation *expectation);

// Where the number of the path lies that is expected of a hook with this key.
static inline uint16_t *expected_number(const struct expectation *expectation, uintptr_t address,
                                        uintptr_t to_thread) {
    uint64_t mixed = address ^ to_thread << 20 ^ expectation->last_sites;
    return &expectation->path_numbers[mixed * UINT64_C(0x9e3779b97f4a7c15) >> (64 - EXPECTED_BITS)];
}

// The path by which a stack is expected in the hook whose frame ends at `cfa`.
static inline const struct tree_path *expected_path(const struct expectation *expectation, uintptr_t cfa) {
    return &expected_paths[*expected_number(expectation, tree_address(cfa), tree_to_thread(cfa))];
}

// It was another one, which is expected next time.
HIDDEN void expected_other(const struct expectation *expectation, const struct tree_path *path);

// What comes next comes after this site.
static inline void expected_after(struct expectation *expectation, uint32_t site) {
    expectation->last_sites = expectation->last_sites << 32 | site;
}

#endif
