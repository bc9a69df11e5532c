// SPDX-License-Identifier: Apache-2.0
// The functions behind ours, and memory for calls that come before they are known.
#ifndef HEAPTAPE_REAL_H
#define HEAPTAPE_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attributes.h"

struct sigevent;

// This is struct dl_find_object of glibc 2.35, which older headers lack.
struct found_object {
    unsigned long long flags;
    void *start, *end;  // of its segments
    struct link_map *map;
    void *eh_frame;
    unsigned long long reserved[7];
};

// The functions behind ours: the first definition of each after our own in the loader's order. Those from mmap on are watched, not
// recorded.
#define REAL_FUNCTIONS(F)                                                                                    \
    F(void *, calloc, (size_t, size_t))                                                                      \
    F(void *, realloc, (void *, size_t))                                                                     \
    F(void, free, (void *))                                                                                  \
    F(int, posix_memalign, (void **, size_t, size_t))                                                        \
    F(void *, aligned_alloc, (size_t, size_t))                                                               \
    F(void *, memalign, (size_t, size_t))                                                                    \
    F(void *, valloc, (size_t))                                                                              \
    F(void *, pvalloc, (size_t))                                                                             \
    F(void, free_sized, (void *, size_t))                                                                    \
    F(void, free_aligned_sized, (void *, size_t, size_t))                                                    \
    F(size_t, malloc_usable_size, (void *))                                                                  \
    F(int, mallopt, (int, int))                                                                              \
    F(int, malloc_trim, (size_t))                                                                            \
    F(void *, mmap, (void *, size_t, int, int, int, off_t))                                                  \
    F(int, munmap, (void *, size_t))                                                                         \
    F(void *, mremap, (void *, size_t, size_t, int, ...))                                                    \
    F(int, mprotect, (void *, size_t, int))                                                                  \
    F(int, madvise, (void *, size_t, int))                                                                   \
    F(int, mlockall, (int))                                                                                  \
    F(int, prctl, (int, ...))                                                                                \
    F(int, dlclose, (void *))                                                                                \
    F(long, syscall, (long, ...))                                                                            \
    F(int, clone, (int (*)(void *), void *, int, void *, void *, void *, void *))                            \
    F(void, quick_exit, (int))                                                                               \
    F(int, mq_notify, (int, const struct sigevent *))                                                        \
    F(int, inotify_init, (void))                                                                             \
    F(int, inotify_init1, (int))                                                                             \
    F(int, fanotify_init, (unsigned, unsigned))
#define REAL_MEMBER(result, name, parameters) result(*name) parameters;

struct real_functions {
    void *(*malloc)(size_t);
    REAL_FUNCTIONS(REAL_MEMBER)
    pid_t (*bare_fork)(void);   // _Fork
    void (*exit_at_once)(int);  // _exit
    // Called by us, and NULL where libc has none: a symbol of ours with a version that is not there would end the program
    // as it starts. Before glibc 2.34 some of them are in libraries of their own, which not every program has.
    void *(*dlopen)(const char *, int);
    int (*find_object)(void *, struct found_object *);  // _dl_find_object, of glibc 2.35
    int (*pthread_key_create)(unsigned *, void (*)(void *));
    int (*pthread_setspecific)(unsigned, const void *);
    // operator new and delete of another library.
    void *(*new_[8])(size_t, size_t, const void *);
    void (*delete_[12])(void *, size_t, size_t);
    bool delete_own[12];                // recorded: an allocator's own, or free in the C++ library's place
    _Atomic unsigned char new_kind[8];  // enum new_kind of each form
    // The object that the allocator lives in, whose calls of public functions are its own business. Empty for
    // a libc whose allocator makes none: then what libc calls is the program's. And the shim's own: where an
    // allocator's function ends in a jump to a public one, that returns to us.
    uintptr_t object_start, object_end, own_start, own_end;
    // The loader gives everybody a malloc or free that comes before ours, as a program's own: blocks are that one's, which
    // the functions here know nothing of. What we have beyond it is made of its functions.
    bool passed_by;
    // The allocator is hardened_malloc, which forbids the pages that blocks of no bytes lie in.
    bool forbids_pages;
};
// Where an allocator's operator new gets its memory decides who records it. Its forms differ: jemalloc's
// aligned ones call aligned_alloc, the others do not.
enum new_kind {
    NEW_UNKNOWN,    // the first call decides
    NEW_ON_MALLOC,  // built on a function of the malloc family, whose hook records it
    NEW_BY_MALLOC,  // the C++ library's: malloc in its place, recorded as new
    NEW_OWN         // recorded as new
};
extern HIDDEN struct real_functions real;

HIDDEN void real_resolve(void);
HIDDEN void real_resolve_cxx(void);
// Those of threads, once more: before glibc 2.34 a library that is opened later may bring them.
HIDDEN void real_resolve_threads(void);
static inline bool real_calls_from(const void *caller) {
    uintptr_t at = (uintptr_t)caller;
    return (at >= real.object_start && at < real.object_end) || (at >= real.own_start && at < real.own_end);
}

// Memory of calls that come before the real functions are known.
enum { BOOT_BYTES = 256 << 10 };
extern HIDDEN char boot_arena[BOOT_BYTES];
static inline bool boot_owns(const void *block) {
    return (uintptr_t)block - (uintptr_t)boot_arena < BOOT_BYTES;
}
HIDDEN void *boot_allocate(size_t size, size_t alignment);
HIDDEN size_t boot_size(const void *block);

#endif
