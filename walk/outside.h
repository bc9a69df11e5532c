// SPDX-License-Identifier: Apache-2.0
// Private memory in RAM that is not malloc's.
#ifndef HEAPTAPE_OUTSIDE_H
#define HEAPTAPE_OUTSIDE_H

#include "glibc.h"

struct outside {
    uint64_t stacks_bytes, files_bytes,
        other_bytes;         // files: written pages of private mappings, zeroed data among them
    uint64_t largest_bytes;  // of one mapping of others
    uint64_t largest_start;
    uint64_t swapped_bytes;
};

// glibc: whose heaps and mapped chunks are left out; NULL: none. 0 or -1 with error.
int outside_take(struct outside *outside, struct space *space, const struct glibc *glibc,
                 struct ht_error *error);

#endif
