// SPDX-License-Identifier: Apache-2.0
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "real.h"

struct real_functions real;

// Another thread, or a signal handler, may allocate while the first call still searches the real
// functions. Such blocks are few, small and never given back.
enum { BOOT_ALIGN = 16 };
_Alignas(4096) char boot_arena[BOOT_BYTES];
static _Atomic size_t boot_used;

void *boot_allocate(size_t size, size_t alignment) {
    if (alignment < BOOT_ALIGN) alignment = BOOT_ALIGN;
    if (size > BOOT_BYTES || alignment > 4096) return NULL;
    // The 16 bytes before the block hold the size, for realloc.
    size_t need = (size + BOOT_ALIGN - 1) / BOOT_ALIGN * BOOT_ALIGN + alignment + BOOT_ALIGN;
    size_t start = atomic_fetch_add(&boot_used, need);
    if (start > BOOT_BYTES - need) return NULL;
    uintptr_t block = ((uintptr_t)boot_arena + start + BOOT_ALIGN + alignment - 1) / alignment * alignment;
    memcpy((void *)(block - sizeof size), &size, sizeof size);
    return (void *)block;
}

size_t boot_size(const void *block) {
    size_t size;
    memcpy(&size, (const char *)block - sizeof size, sizeof size);
    return size;
}

// Itanium C++ names; size_t is j on 32-bit machines and m on 64-bit ones.
#if __SIZEOF_SIZE_T__ == 8
#define SZ "m"
#else
#define SZ "j"
#endif

enum { NEWS = 8, OPERATORS = 20 };  // new's forms, then delete's
static const char *const operator_names[OPERATORS] = {"_Znw" SZ,
                                                      "_Zna" SZ,
                                                      "_Znw" SZ "RKSt9nothrow_t",
                                                      "_Zna" SZ "RKSt9nothrow_t",
                                                      "_Znw" SZ "St11align_val_t",
                                                      "_Zna" SZ "St11align_val_t",
                                                      "_Znw" SZ "St11align_val_tRKSt9nothrow_t",
                                                      "_Zna" SZ "St11align_val_tRKSt9nothrow_t",
                                                      "_ZdlPv",
                                                      "_ZdaPv",
                                                      "_ZdlPv" SZ,
                                                      "_ZdaPv" SZ,
                                                      "_ZdlPvSt11align_val_t",
                                                      "_ZdaPvSt11align_val_t",
                                                      "_ZdlPv" SZ "St11align_val_t",
                                                      "_ZdaPv" SZ "St11align_val_t",
                                                      "_ZdlPvRKSt9nothrow_t",
                                                      "_ZdaPvRKSt9nothrow_t",
                                                      "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                                                      "_ZdaPvSt11align_val_tRKSt9nothrow_t"};

// Whether that is an object's file name, whichever folder it is in.
static bool is_named(const struct loaded_object *object, const char *name) {
    const char *slash = strrchr(object->name, '/');
    return slash && !strcmp(slash + 1, name);
}

static bool is_glibc(const struct loaded_object *object) {
#ifdef __GLIBC__
    return is_named(object, "libc.so.6");
#else
    (void)object;
    return false;
#endif
}

static bool is_cxx_library(const struct loaded_object *object) {
    return is_named(object, "libstdc++.so.6") || is_named(object, "libc++.so.1") ||
           is_named(object, "libc++abi.so.1");
}

static bool is_in(const struct loaded_object *object, const void *address) {
    return (uintptr_t)address >= object->start && (uintptr_t)address < object->end;
}

static void find_objects(void) {
    struct loaded_object allocator = loader_object_of((void *)real.malloc), own = loader_object_of(&real);
    // glibc's allocator calls nothing public, so whatever comes from glibc while it is at work is a signal
    // handler's.
    real.object_start = is_glibc(&allocator) ? 0 : allocator.start;
    real.object_end = is_glibc(&allocator) ? 0 : allocator.end;
    real.own_start = own.start;
    real.own_end = own.end;
}

static bool is_aligned(unsigned form) { return strstr(operator_names[form], "St11align_val_t") != NULL; }

// Whether the forms without alignment are all the C++ library's, which are malloc and free by other names: array
// forms call plain ones, and so on, through the symbols. So none may have a definition before ours either: where a
// program replaces one form, the library's others lead to it. Aligned forms get their memory from one function or
// another, of a size that is rounded or not, as the library's version has it: they pass through.
static bool are_malloc_and_free(void *const found[OPERATORS]) {
    struct loaded_object library = loader_object_of(found[0]), own = loader_object_of(&real);
    bool all = is_cxx_library(&library) && !real.passed_by;
    for (unsigned i = 0; all && i < OPERATORS; i++)
        all = is_aligned(i) || (is_in(&library, found[i]) && is_in(&own, symbol_anywhere(operator_names[i])));
    return all;
}

// An allocator's own operator new, which lives in the same object as its malloc, mostly does not call a function
// that our hooks see; any other does. An allocator may bring some of the forms and leave the rest. What is to be
// known of a function is there before the function is. All or nothing: who holds the lock may let go of it in between.
void real_resolve_cxx(void) {
    if (!loader_lock()) return;
    struct loaded_object allocator = loader_object_of((void *)real.malloc);
    void *found[OPERATORS];
    for (unsigned i = 0; i < OPERATORS; i++) found[i] = symbol_behind_us(operator_names[i]);
    bool direct = are_malloc_and_free(found);
    for (unsigned i = 0; i < OPERATORS; i++) {
        bool own = is_in(&allocator, found[i]), by_malloc = direct && !is_aligned(i);
        if (i >= NEWS) real.delete_own[i - NEWS] = own || by_malloc;
        else if (found[i] && !own && real.new_kind[i] == NEW_UNKNOWN)
            real.new_kind[i] = by_malloc ? NEW_BY_MALLOC : NEW_ON_MALLOC;
        if (i >= NEWS && by_malloc) found[i] = (void *)real.free;
    }
    atomic_thread_fence(memory_order_release);
    memcpy(real.new_, found, sizeof real.new_);
    memcpy(real.delete_, found + NEWS, sizeof real.delete_);
    loader_unlock();
}

void real_resolve_threads(void) {
    void *set = symbol_anywhere("pthread_setspecific");
    real.pthread_setspecific = set;
    real.pthread_key_create = set ? symbol_anywhere("pthread_key_create") : NULL;
}

// All at once, and not where they are first called: then another thread may hold the lock of the loader's list, or a forked
// child may find it held by a thread that it does not have.
void real_resolve(void) {
#define RESOLVE(result, name, parameters) real.name = symbol_behind_us(#name);
    REAL_FUNCTIONS(RESOLVE)
    real.bare_fork = symbol_behind_us("_Fork");
    real.exit_at_once = symbol_behind_us("_exit");
    real.forbids_pages = symbol_anywhere("malloc_object_size_fast");
    real.dlopen = symbol_anywhere("dlopen");
    real.find_object = symbol_anywhere("_dl_find_object");
    real_resolve_threads();
    // malloc last: once it is set, calls from other threads pass through instead of using the boot arena.
    void *found = symbol_behind_us("malloc");
    real.malloc = found;
    find_objects();
    struct loaded_object own = loader_object_of(&real);
    real.passed_by = !is_in(&own, symbol_anywhere("malloc")) || !is_in(&own, symbol_anywhere("free"));
    real_resolve_cxx();
}
