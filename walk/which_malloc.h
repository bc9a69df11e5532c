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
    const char *within;                  // one that the program has besides, under names of its own, or NULL
};

void allocator_find(struct allocator *allocator, const struct modules *modules);
// Another allocator is the one that matters: that within the program.
void allocator_take_within(struct allocator *allocator, const struct modules *modules);
// The command that asks it, and what this does to the process; "" where there is none.
void allocator_ask(const struct allocator *allocator, const struct modules *modules, int pid, char *ask,
                   size_t room);

#endif
