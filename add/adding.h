// SPDX-License-Identifier: Apache-2.0
// heaptape allocators add: from a stranger's file to a name that --alloc takes.
#ifndef HEAPTAPE_ADDING_H
#define HEAPTAPE_ADDING_H

#include <limits.h>
#include <stdbool.h>

#include "added_allocators.h"
#include "error.h"

struct added_entry {
    char all[PATH_MAX], partial[PATH_MAX];
    int fd;  // of partial, which is locked: one that nobody has locked is left over, and removed by the next
};

// 0, or -1 with an error: there is none of that name.
int added_entry_remove(const char *name, struct ht_error *error);

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

// name: NAME@VERSION that it is to have, NULL: as it is. build: the file has sources, which are compiled. Says what it does, and
// returns the exit status.
int adding(const char *path, const char *name, bool build);

#endif
