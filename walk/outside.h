// SPDX-License-Identifier: Apache-2.0
// Private memory in RAM that is not malloc's.
#ifndef HEAPTAPE_OUTSIDE_H
#define HEAPTAPE_OUTSIDE_H

#include "glibc.h"
#include "other.h"

struct outside {
    uint64_t stacks_bytes, files_bytes,
        other_bytes;         // files: written pages of private mappings, zeroed data among them
    uint64_t largest_bytes;  // of one mapping of others
    uint64_t largest_start;
    uint64_t swapped_bytes;
};

// glibc, other: whose heaps are left out, of one of them; NULL: none. 0 or -1 with error.
int outside_take(struct outside *outside, struct space *space, const struct glibc *glibc,
                 const struct other *other, struct ht_error *error);

#endif
