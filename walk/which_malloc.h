// SPDX-License-Identifier: Apache-2.0
// Whose malloc a process has, by what its modules export.
#ifndef HEAPTAPE_WHICH_MALLOC_H
#define HEAPTAPE_WHICH_MALLOC_H

#include "modules.h"

struct allocator {
    const char *name;                    // "glibc", "jemalloc", ..., "unknown"
    char version[64];                    // "" where it says none
    const struct module *module, *libc;  // NULL: not found
    int glibc_minor;                     // of 2.N, 0: no glibc
};

void allocator_find(struct allocator *allocator, const struct modules *modules);

#endif
