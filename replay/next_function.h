// The function that a name of ours hides: the next one of that name, usually the C library's. Looked up at
// its first call, which may come before main, from an allocator's constructor; a look-up that succeeds calls
// no malloc.
#ifndef HEAPTAPE_NEXT_FUNCTION_H
#define HEAPTAPE_NEXT_FUNCTION_H

#include <dlfcn.h>
#include <stdatomic.h>

static inline void *ht_next_function(const char *name, _Atomic(void *) *known) {
    void *next = atomic_load_explicit(known, memory_order_relaxed);
    if (!next) {
        next = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(known, next, memory_order_relaxed);
    }
    return next;
}

// NAME as the next object has it, with the type of ours. KNOWN is a static _Atomic(void *) of the caller's.
#define HT_NEXT_FUNCTION(NAME, KNOWN) ((__typeof__(&NAME))ht_next_function(#NAME, (KNOWN)))

#endif
