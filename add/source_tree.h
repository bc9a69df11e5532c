// SPDX-License-Identifier: Apache-2.0
// A stranger's source archive as a folder: regular files only, so that no name in it leads elsewhere.
#ifndef HEAPTAPE_SOURCE_TREE_H
#define HEAPTAPE_SOURCE_TREE_H

#include <limits.h>

#include "error.h"

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

#endif
