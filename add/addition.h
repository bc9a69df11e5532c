// SPDX-License-Identifier: Apache-2.0
// From a file to an allocator's folder: who it is, what it is called, and what is written.
#ifndef HEAPTAPE_ADDITION_H
#define HEAPTAPE_ADDITION_H

#include "added_allocators.h"
#include "added_entry.h"
#include "error.h"

// In confined memory.
struct addition {
    // Given.
    int fd;
    const char *path, *wanted_name;        // wanted_name: NULL: as it is
    const char *known_version, *known_by;  // where neither library nor package says it; NULL: unknown
    char source[256], sha256[65];
    struct added_entry entry;
    // Found.
    char name[HT_ADDED_NAME_BYTES];
    char libc[24];  // the version of the C library that it needs at least; empty: none
    struct ht_error error;
};

// Proves what the file is, and writes it with its manifest into the entry's folder. 0, or -1 with the error.
int addition_make(struct addition *addition);

#endif
