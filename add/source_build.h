// SPDX-License-Identifier: Apache-2.0
// The library of a kind, made from its sources by what the catalogue says of its crate: one call of the compiler, or the sources'
// own configure and make.
#ifndef HEAPTAPE_SOURCE_BUILD_H
#define HEAPTAPE_SOURCE_BUILD_H

#include <limits.h>

#include "allocator.h"
#include "error.h"

// A stranger's source archive as a folder: regular files only, so that no name in it leads elsewhere.

// In confined memory.
struct source_tree {
    int fd;            // of the archive
    const char *path;  // for messages
    char folder[PATH_MAX];
    char top[NAME_MAX + 1];  // the one folder in it that has all, such as mimalloc-3.2.6
    unsigned folders;        // made
    struct ht_error error;
};

// Unpacks it into the folder, which is there. 0, or -1 with the error.
int source_tree_unpack(struct source_tree *tree);

struct source_build {
    const struct ht_allocator *kind;
    // The catalogue's paths are below this folder once so many of their own folders are left out: what its authors publish is less deep
    // than a crate.
    char root[PATH_MAX];
    unsigned left_out;
    char first[PATH_MAX];    // of its sources, or configure
    char library[PATH_MAX];  // once it is made
    char version[64];        // as the archive is called; empty: that says none
};

enum { SOURCE_BUILDS_MAX = 8 };

// All that can be built of the tree: a crate may have several releases. Returns how many.
size_t source_builds_plan(struct source_build builds[SOURCE_BUILDS_MAX], const struct source_tree *tree);
// version: for a library that does not report one; may be empty. 0, or -1 with an error.
int source_build_make(struct source_build *build, const struct source_tree *tree, const char *version,
                      struct ht_error *error);

#endif
