// SPDX-License-Identifier: Apache-2.0
// The allocator behind a preloaded library of bench/: the functions that a recorder forwards to.
#ifndef HEAPTAPE_NEXT_MALLOC_H
#define HEAPTAPE_NEXT_MALLOC_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

struct next_functions {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
};
static struct next_functions next;

// malloc comes last: then all are known.
static __attribute__((noinline, cold)) void next_resolve(void) {
    next.calloc = dlsym(RTLD_NEXT, "calloc");
    next.realloc = dlsym(RTLD_NEXT, "realloc");
    next.free = dlsym(RTLD_NEXT, "free");
    next.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    next.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    next.malloc = dlsym(RTLD_NEXT, "malloc");
}

// False only for a call that dlsym itself makes: glibc's does without what it asked for.
static inline bool next_known(void) {
    if (__builtin_expect(next.malloc != NULL, 1)) return true;
    static bool resolving;
    if (resolving) return false;
    resolving = true;
    next_resolve();
    return true;
}

#endif
