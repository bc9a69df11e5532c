// Which stack does a thread's next allocation come from? Programs allocate in sequences: after the same two stacks mostly comes
// the same third one (CPython's JSON work: 85 %). So a thread has a table of what followed; the stack that is expected is
// compared with the one at hand by the words by which the tree (stack_tree.h) would have gone. They lie in one cache line,
// which is fetched while the program works.
#ifndef HEAPTAPE_EXPECTED_STACK_H
#define HEAPTAPE_EXPECTED_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "attributes.h"
#include "stack_tree.h"

enum { FOLLOWERS_BITS = 12 };

// What a thread knows, in its thread-local storage. A signal handler may change it at any point: then another stack is
// expected.
struct expectation {
    const struct tree_path *
        *followers;  // by the last two sites, the next; NULL: the thread does not expect anything
    const struct tree_path *path;  // the expected one; NULL: none
    uint32_t last_site, context;   // context: where in followers the expected one lies
};

// Before the first recording of the process.
HIDDEN void expected_start(void);
// The calling thread begins to expect stacks.
HIDDEN void expected_begin(struct expectation *expectation);

// The thread's allocation came by this path.
static inline void expected_next(struct expectation *expectation, const struct tree_path *path) {
    const struct tree_path **followers = expectation->followers;
    uint32_t site = path->site;
    uint32_t mixed = (expectation->last_site * UINT32_C(0x85ebca6b) + site) * UINT32_C(0x9e3779b1);
    expectation->last_site = site;
    expectation->context = mixed >> (32 - FOLLOWERS_BITS);
    expectation->path = followers[expectation->context];
    __builtin_prefetch(expectation->path);
}

// The path by which the last stack of this hook's key came, from any thread; NULL: none is known. Where another stack was
// expected than that of the hook whose frame ends at `cfa`, this may be it, and is found in less time than by the tree.
HIDDEN const struct tree_path *expected_second(uintptr_t cfa);
// The same as expected_next, where it was that one.
HIDDEN void expected_was(struct expectation *expectation, const struct tree_path *path);
// The same, where it was neither.
HIDDEN void expected_other(struct expectation *expectation, const struct tree_path *path);

#endif
