// SPDX-License-Identifier: Apache-2.0
// The library of a kind, made from its sources by what the catalogue says of its crate: one call of the compiler, or the sources'
// own configure and make.
#ifndef HEAPTAPE_SOURCE_BUILD_H
#define HEAPTAPE_SOURCE_BUILD_H

#include "allocator.h"
#include "source_tree.h"

struct source_build {
    const struct ht_allocator *kind;
    char first[PATH_MAX];    // of its sources
    char library[PATH_MAX];  // once it is made
    char version[64];        // as the archive is called; empty: that says none
};

// Whether the sources are of that kind.
bool source_build_plan(struct source_build *build, const struct source_tree *tree,
                       const struct ht_allocator *kind);
// version: for a library that does not report one; may be empty. 0, or -1 with an error.
int source_build_make(struct source_build *build, const struct source_tree *tree, const char *version,
                      struct ht_error *error);

#endif
