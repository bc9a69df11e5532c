// SPDX-License-Identifier: Apache-2.0
// The functions that jemalloc and mimalloc have under names of their own. Each is recorded as the standard
// function that does the same; what a trace cannot say (zeroed and aligned, an offset, the alignment of a
// realloc) is left out. Also the calls by which a program controls these
// allocators and tcmalloc. Only libmalloc_wrap_full.so has them.
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "loader.h"
#include "wrap.h"

// The allocator's own function, NULL if it is not there. It may come later, with a library.
static void *find(void *_Atomic *known, const char *name) {
    void *found = atomic_load_explicit(known, memory_order_acquire);
    if (likely(found)) return found;
    found = symbol_behind_us(name);
    atomic_store_explicit(known, found, memory_order_release);
    return found;
}

// A standard function, which records itself, stands in if the allocator is not there after all, although a program has found
// our function.
static __attribute__((noinline)) void *stand_in(bool zeroed, size_t bytes, size_t alignment) {
    if (alignment <= _Alignof(max_align_t)) return zeroed ? calloc(1, bytes) : malloc(bytes);
    void *block = aligned_alloc(alignment, bytes);
    return block && zeroed ? memset(block, 0, bytes) : block;
}

#define BEHIND(name, result, parameters)                                                                     \
    static void *_Atomic known;                                                                              \
    result(*behind) parameters;                                                                              \
    behind = find(&known, #name)

// A block of count times size bytes, recorded as that function. `instead` stands in for it.
#define ALLOCATES_OR(name, parameters, arguments, instead, function, count, size, alignment)                 \
    EXPORT void *name parameters {                                                                           \
        BEHIND(name, void *, parameters);                                                                    \
        if (unlikely(!behind)) return instead;                                                               \
        struct wrap_call call __attribute__((cleanup(wrap_call_end_allocation))) = {                         \
            enter_allocator_first(), function, count, size, alignment};                                      \
        return call.block = behind arguments;                                                                \
    }
// `zeroed` is for the stand-in.
#define ALLOCATES(name, parameters, arguments, zeroed, function, count, size, alignment)                     \
    ALLOCATES_OR(name, parameters, arguments, stand_in(zeroed, wrap_product(count, size), alignment),        \
                 function, count, size, alignment)

#define RESIZES(name, parameters, arguments, function, former, count, size)                                  \
    EXPORT void *name parameters {                                                                           \
        BEHIND(name, void *, parameters);                                                                    \
        if (unlikely(!behind || boot_owns(former))) return realloc(former, wrap_product(count, size));       \
        struct wrap_call call __attribute__((cleanup(wrap_call_end_resize))) = {                             \
            enter_record_first(), function, count, size, .old = former};                                     \
        wrap_call_begin_resize(&call);                                                                       \
        return call.block = behind arguments;                                                                \
    }

#define RELEASES(name, parameters, arguments, block, put)                                                    \
    EXPORT void name parameters {                                                                            \
        BEHIND(name, void, parameters);                                                                      \
        if (unlikely(boot_owns(block))) return;                                                              \
        if (unlikely(!behind)) {                                                                             \
            free(block);                                                                                     \
            return;                                                                                          \
        }                                                                                                    \
        struct thread_state *t = enter_record_first();                                                       \
        if (likely(t)) put;                                                                                  \
        behind arguments;                                                                                    \
        if (likely(t)) leave(t);                                                                             \
    }

#define QUERIES(name, parameters, arguments, block)                                                          \
    EXPORT size_t name parameters {                                                                          \
        BEHIND(name, size_t, parameters);                                                                    \
        if (unlikely(!behind || boot_owns(block))) return malloc_usable_size((void *)block);                 \
        struct thread_state *t = enter_record_first();                                                       \
        if (likely(t)) wrap_put_query(t, block);                                                             \
        size_t bytes = behind arguments;                                                                     \
        if (likely(t)) leave(t);                                                                             \
        return bytes;                                                                                        \
    }

// ---- jemalloc ----

enum { MALLOCX_LG_ALIGN_MASK = 0x3f, MALLOCX_ZERO = 0x40 };

// 0 if the flags give none.
static size_t alignment_in(int flags) {
    int shift = flags & MALLOCX_LG_ALIGN_MASK;
    return shift ? (size_t)1 << shift : 0;
}

static enum ht_function function_of(int flags) {
    if (flags & MALLOCX_LG_ALIGN_MASK) return HT_ALIGNED_ALLOC;
    return flags & MALLOCX_ZERO ? HT_CALLOC : HT_MALLOC;
}

static void put_sized(struct thread_state *t, void *block, size_t size, size_t alignment) {
    wrap_put_delete(t, alignment ? HT_FREE_ALIGNED_SIZED : HT_FREE_SIZED, block, true, size, alignment != 0,
                    alignment);
}

ALLOCATES(mallocx, (size_t size, int flags), (size, flags), flags &MALLOCX_ZERO, function_of(flags), 1, size,
          alignment_in(flags))
RESIZES(rallocx, (void *block, size_t size, int flags), (block, size, flags), HT_REALLOC, block, 1, size)
RELEASES(dallocx, (void *block, int flags), (block, flags), block, wrap_put_free(t, block))
RELEASES(sdallocx, (void *block, size_t size, int flags), (block, size, flags), block,
         put_sized(t, block, size, alignment_in(flags)))

QUERIES(sallocx, (void *block, int flags), (block, flags), block)

// Never moves the block: a realloc to the same one, or a failed one. Returns the size that the block has.
EXPORT size_t xallocx(void *block, size_t size, size_t extra, int flags) {
    BEHIND(xallocx, size_t, (void *, size_t, size_t, int));
    if (unlikely(!behind || boot_owns(block))) return 0;
    struct wrap_call call __attribute__((cleanup(wrap_call_end_resize))) = {enter_record_first(), HT_REALLOC,
                                                                            1, size, .old = block};
    wrap_call_begin_resize(&call);
    size_t now = behind(block, size, extra, flags);
    if (now >= size) call.block = block;
    return now;
}

// ---- mimalloc ----

#define UNWRAPPED(...) __VA_ARGS__
// Most functions have a twin that names a heap, some since 3.2 one that names a theap, a thread's part of a heap.
#define ALLOCATES_FROM(name, parameters, arguments, ...)                                                     \
    ALLOCATES(name, (void *heap, UNWRAPPED parameters), (heap, UNWRAPPED arguments), __VA_ARGS__)
#define RESIZES_FROM(name, parameters, arguments, ...)                                                       \
    RESIZES(name, (void *heap, UNWRAPPED parameters), (heap, UNWRAPPED arguments), __VA_ARGS__)
#define MI_ALLOCATES(name, parameters, arguments, ...)                                                       \
    ALLOCATES(mi_##name, parameters, arguments, __VA_ARGS__)                                                 \
    ALLOCATES_FROM(mi_heap_##name, parameters, arguments, __VA_ARGS__)
#define MI_RESIZES(name, parameters, arguments, ...)                                                         \
    RESIZES(mi_##name, parameters, arguments, __VA_ARGS__)                                                   \
    RESIZES_FROM(mi_heap_##name, parameters, arguments, __VA_ARGS__)
#define MI_ALLOCATES_THRICE(name, parameters, arguments, ...)                                                \
    MI_ALLOCATES(name, parameters, arguments, __VA_ARGS__)                                                   \
    ALLOCATES_FROM(mi_theap_##name, parameters, arguments, __VA_ARGS__)
#define MI_RESIZES_THRICE(name, parameters, arguments, ...)                                                  \
    MI_RESIZES(name, parameters, arguments, __VA_ARGS__)                                                     \
    RESIZES_FROM(mi_theap_##name, parameters, arguments, __VA_ARGS__)

MI_ALLOCATES_THRICE(malloc, (size_t size), (size), false, HT_MALLOC, 1, size, 0)
MI_ALLOCATES_THRICE(malloc_small, (size_t size), (size), false, HT_MALLOC, 1, size, 0)
MI_ALLOCATES_THRICE(zalloc, (size_t size), (size), true, HT_CALLOC, 1, size, 0)
MI_ALLOCATES_THRICE(zalloc_small, (size_t size), (size), true, HT_CALLOC, 1, size, 0)
MI_ALLOCATES_THRICE(calloc, (size_t count, size_t size), (count, size), true, HT_CALLOC, count, size, 0)
MI_ALLOCATES(mallocn, (size_t count, size_t size), (count, size), false, HT_MALLOC, 1,
             wrap_product(count, size), 0)

MI_ALLOCATES_THRICE(malloc_aligned, (size_t size, size_t alignment), (size, alignment), false,
                    HT_ALIGNED_ALLOC, 1, size, alignment)
MI_ALLOCATES(malloc_aligned_at, (size_t size, size_t alignment, size_t offset), (size, alignment, offset),
             false, HT_ALIGNED_ALLOC, 1, size, alignment)
MI_ALLOCATES_THRICE(zalloc_aligned, (size_t size, size_t alignment), (size, alignment), true,
                    HT_ALIGNED_ALLOC, 1, size, alignment)
MI_ALLOCATES(zalloc_aligned_at, (size_t size, size_t alignment, size_t offset), (size, alignment, offset),
             true, HT_ALIGNED_ALLOC, 1, size, alignment)
MI_ALLOCATES(calloc_aligned, (size_t count, size_t size, size_t alignment), (count, size, alignment), true,
             HT_ALIGNED_ALLOC, 1, wrap_product(count, size), alignment)
MI_ALLOCATES(calloc_aligned_at, (size_t count, size_t size, size_t alignment, size_t offset),
             (count, size, alignment, offset), true, HT_ALIGNED_ALLOC, 1, wrap_product(count, size),
             alignment)
ALLOCATES(mi_aligned_alloc, (size_t alignment, size_t size), (alignment, size), false, HT_ALIGNED_ALLOC, 1,
          size, alignment)
ALLOCATES(mi_memalign, (size_t alignment, size_t size), (alignment, size), false, HT_MEMALIGN, 1, size,
          alignment)
ALLOCATES(mi_valloc, (size_t size), (size), false, HT_VALLOC, 1, size, 4096)
ALLOCATES(mi_pvalloc, (size_t size), (size), false, HT_PVALLOC, 1, size, 4096)

MI_RESIZES_THRICE(realloc, (void *block, size_t size), (block, size), HT_REALLOC, block, 1, size)
MI_RESIZES_THRICE(rezalloc, (void *block, size_t size), (block, size), HT_REALLOC, block, 1, size)
MI_RESIZES(reallocn, (void *block, size_t count, size_t size), (block, count, size), HT_REALLOCARRAY, block,
           count, size)
MI_RESIZES(recalloc, (void *block, size_t count, size_t size), (block, count, size), HT_REALLOCARRAY, block,
           count, size)
RESIZES(mi_reallocarray, (void *block, size_t count, size_t size), (block, count, size), HT_REALLOCARRAY,
        block, count, size)
MI_RESIZES(realloc_aligned, (void *block, size_t size, size_t alignment), (block, size, alignment),
           HT_REALLOC, block, 1, size)
MI_RESIZES(realloc_aligned_at, (void *block, size_t size, size_t alignment, size_t offset),
           (block, size, alignment, offset), HT_REALLOC, block, 1, size)
MI_RESIZES(rezalloc_aligned, (void *block, size_t size, size_t alignment), (block, size, alignment),
           HT_REALLOC, block, 1, size)
MI_RESIZES(rezalloc_aligned_at, (void *block, size_t size, size_t alignment, size_t offset),
           (block, size, alignment, offset), HT_REALLOC, block, 1, size)
MI_RESIZES(recalloc_aligned, (void *block, size_t count, size_t size, size_t alignment),
           (block, count, size, alignment), HT_REALLOCARRAY, block, count, size)
MI_RESIZES(recalloc_aligned_at, (void *block, size_t count, size_t size, size_t alignment, size_t offset),
           (block, count, size, alignment, offset), HT_REALLOCARRAY, block, count, size)
RESIZES(mi_aligned_recalloc, (void *block, size_t count, size_t size, size_t alignment),
        (block, count, size, alignment), HT_REALLOCARRAY, block, count, size)
RESIZES(mi_aligned_offset_recalloc, (void *block, size_t count, size_t size, size_t alignment, size_t offset),
        (block, count, size, alignment, offset), HT_REALLOCARRAY, block, count, size)

RELEASES(mi_free, (void *block), (block), block, wrap_put_free(t, block))
RELEASES(mi_free_small, (void *block), (block), block, wrap_put_free(t, block))
RELEASES(mi_free_small_nonnull, (void *block), (block), block, wrap_put_free(t, block))
RELEASES(mi_free_small_local, (void *block), (block), block, wrap_put_free(t, block))
RELEASES(mi_free_small_local_nonnull, (void *block), (block), block, wrap_put_free(t, block))
RELEASES(mi_cfree, (void *block), (block), block, wrap_put_delete(t, HT_CFREE, block, false, 0, false, 0))
RELEASES(mi_free_size, (void *block, size_t size), (block, size), block, put_sized(t, block, size, 0))
RELEASES(mi_free_size_aligned, (void *block, size_t size, size_t alignment), (block, size, alignment), block,
         put_sized(t, block, size, alignment))
RELEASES(mi_free_aligned, (void *block, size_t alignment), (block, alignment), block, wrap_put_free(t, block))

QUERIES(mi_usable_size, (const void *block), (block), block)
QUERIES(mi_malloc_size, (const void *block), (block), block)
QUERIES(mi_malloc_usable_size, (const void *block), (block), block)

// Their result is the same block or NULL, never another.
#define EXPANDS(name)                                                                                        \
    EXPORT void *name(void *block, size_t size) {                                                            \
        BEHIND(name, void *, (void *, size_t));                                                              \
        if (unlikely(!behind || !block || boot_owns(block))) return NULL;                                    \
        struct wrap_call call __attribute__((cleanup(wrap_call_end_resize))) = {                             \
            enter_record_first(), HT_REALLOC, 1, size, .old = block};                                        \
        wrap_call_begin_resize(&call);                                                                       \
        return call.block = behind(block, size);                                                             \
    }
EXPANDS(mi_expand)
EXPANDS(mi__expand)

EXPORT int mi_posix_memalign(void **result, size_t alignment, size_t size) {
    BEHIND(mi_posix_memalign, int, (void **, size_t, size_t));
    if (unlikely(!behind)) return posix_memalign(result, alignment, size);
    struct wrap_call call __attribute__((cleanup(wrap_call_end_allocation))) = {
        enter_allocator_first(), HT_POSIX_MEMALIGN, 1, size, alignment};
    int failed = behind(result, alignment, size);
    if (!failed) call.block = *result;
    return failed;
}

// C++'s meaning: at failure they abort, or throw.
ALLOCATES(mi_new, (size_t size), (size), false, HT_NEW, 1, size, 0)
ALLOCATES(mi_new_nothrow, (size_t size), (size), false, HT_NEW, 1, size, 0)
ALLOCATES(mi_new_n, (size_t count, size_t size), (count, size), false, HT_NEW, 1, wrap_product(count, size),
          0)
ALLOCATES(mi_new_aligned, (size_t size, size_t alignment), (size, alignment), false, HT_NEW_ALIGNED, 1, size,
          alignment)
ALLOCATES(mi_new_aligned_nothrow, (size_t size, size_t alignment), (size, alignment), false, HT_NEW_ALIGNED,
          1, size, alignment)
ALLOCATES_FROM(mi_heap_alloc_new, (size_t size), (size), false, HT_NEW, 1, size, 0)
ALLOCATES_FROM(mi_heap_alloc_new_n, (size_t count, size_t size), (count, size), false, HT_NEW, 1,
               wrap_product(count, size), 0)
ALLOCATES_FROM(mi_theap_alloc_new, (size_t size), (size), false, HT_NEW, 1, size, 0)
ALLOCATES_FROM(mi_theap_alloc_new_nothrow, (size_t size), (size), false, HT_NEW, 1, size, 0)
ALLOCATES_FROM(mi_theap_alloc_new_n, (size_t count, size_t size), (count, size), false, HT_NEW, 1,
               wrap_product(count, size), 0)
RESIZES(mi_new_realloc, (void *block, size_t size), (block, size), HT_REALLOC, block, 1, size)
RESIZES(mi_new_reallocn, (void *block, size_t count, size_t size), (block, count, size), HT_REALLOCARRAY,
        block, count, size)

// These tell the size of the block, too.
static void tell(void *block, size_t *bytes) {
    if (bytes) *bytes = malloc_usable_size(block);
}

static void *told(void *block, size_t *bytes) {
    tell(block, bytes);
    return block;
}

#define TELLS(name, parameters, arguments, zeroed, function, count, size, alignment)                         \
    ALLOCATES_OR(name, (UNWRAPPED parameters, size_t *bytes), (UNWRAPPED arguments, bytes),                  \
                 told(stand_in(zeroed, wrap_product(count, size), alignment), bytes), function, count, size, \
                 alignment)
TELLS(mi_umalloc, (size_t size), (size), false, HT_MALLOC, 1, size, 0)
TELLS(mi_umalloc_small, (size_t size), (size), false, HT_MALLOC, 1, size, 0)
TELLS(mi_uzalloc_small, (size_t size), (size), true, HT_CALLOC, 1, size, 0)
TELLS(mi_ucalloc, (size_t count, size_t size), (count, size), true, HT_CALLOC, count, size, 0)
TELLS(mi_umalloc_aligned, (size_t size, size_t alignment), (size, alignment), false, HT_ALIGNED_ALLOC, 1,
      size, alignment)
TELLS(mi_uzalloc_aligned, (size_t size, size_t alignment), (size, alignment), true, HT_ALIGNED_ALLOC, 1, size,
      alignment)

EXPORT void *mi_urealloc(void *former, size_t size, size_t *bytes_before, size_t *bytes) {
    BEHIND(mi_urealloc, void *, (void *, size_t, size_t *, size_t *));
    if (unlikely(!behind || boot_owns(former))) {
        tell(former, bytes_before);
        return told(realloc(former, size), bytes);
    }
    struct wrap_call call __attribute__((cleanup(wrap_call_end_resize))) = {enter_record_first(), HT_REALLOC,
                                                                            1, size, .old = former};
    wrap_call_begin_resize(&call);
    return call.block = behind(former, size, bytes_before, bytes);
}

EXPORT void mi_ufree(void *block, size_t *bytes) {
    BEHIND(mi_ufree, void, (void *, size_t *));
    if (unlikely(!behind || boot_owns(block))) {
        tell(block, bytes);
        free(block);
        return;
    }
    struct thread_state *t = enter_record_first();
    if (likely(t)) wrap_put_free(t, block);
    behind(block, bytes);
    if (likely(t)) leave(t);
}

// A heap goes with all its blocks. They are visited first: each is freed by nobody else.
static bool put_doomed(const void *heap, const void *area, void *block, size_t size, void *context) {
    (void)heap, (void)area, (void)size;
    struct thread_state *t = context;
    if (!block) return true;  // the visit of an area begins
    set_gate(t, GATE_BUSY_OWN);
    wrap_put_free(t, block);
    return true;
}

// The first heap keeps its blocks, or hands them on as mi_heap_delete does: the thread's, since 3.2 the process's. The
// visit is the allocator's; put_doomed() closes the gate to our own work for each record.
EXPORT void mi_heap_destroy(void *heap) {
    static void *_Atomic known_visit, *_Atomic known_backing, *_Atomic known_main;
    BEHIND(mi_heap_destroy, void, (void *));
    bool (*visit)(const void *, bool, bool (*)(const void *, const void *, void *, size_t, void *), void *);
    void *(*first)(void);
    visit = find(&known_visit, "mi_heap_visit_blocks");
    first = find(&known_backing, "mi_heap_get_backing");
    if (!first) first = find(&known_main, "mi_heap_main");
    if (unlikely(!behind)) return;
    struct thread_state *t = enter_allocator_first();
    if (t && heap && visit && first && heap != first()) visit(heap, true, put_doomed, t);
    behind(heap);
    if (t) leave(t);
}

// ---- mimalloc's that are made of others, as in mimalloc itself: those record themselves ----

#define MADE_OF_REALLOC(name, parameters, moved_by)                                                          \
    EXPORT void *name parameters {                                                                           \
        void *moved = moved_by;                                                                              \
        if (!moved && block) mi_free(block);                                                                 \
        return moved;                                                                                        \
    }
MADE_OF_REALLOC(mi_reallocf, (void *block, size_t size), mi_realloc(block, size))
MADE_OF_REALLOC(mi_heap_reallocf, (void *heap, void *block, size_t size), mi_heap_realloc(heap, block, size))

EXPORT int mi_reallocarr(void *place, size_t count, size_t size) {
    if (!place) return errno = EINVAL;
    void *moved = mi_reallocarray(*(void **)place, count, size);
    if (!moved) return errno;
    *(void **)place = moved;
    return 0;
}

static void *copy_of(const void *text, size_t bytes, void *room) {
    return room ? memcpy(room, text, bytes) : NULL;
}

EXPORT void *mi_strdup(const char *text) {
    return text ? copy_of(text, strlen(text) + 1, mi_malloc(strlen(text) + 1)) : NULL;
}
EXPORT void *mi_mbsdup(const char *text) { return mi_strdup(text); }
EXPORT void *mi_heap_strdup(void *heap, const char *text) {
    return text ? copy_of(text, strlen(text) + 1, mi_heap_malloc(heap, strlen(text) + 1)) : NULL;
}

static void *ended_copy_of(const char *text, size_t length, char *room) {
    if (room) room[length] = 0;
    return copy_of(text, length, room);
}

EXPORT void *mi_strndup(const char *text, size_t most) {
    size_t length = text ? strnlen(text, most) : 0;
    return text ? ended_copy_of(text, length, mi_malloc(length + 1)) : NULL;
}
EXPORT void *mi_heap_strndup(void *heap, const char *text, size_t most) {
    size_t length = text ? strnlen(text, most) : 0;
    return text ? ended_copy_of(text, length, mi_heap_malloc(heap, length + 1)) : NULL;
}

EXPORT void *mi_wcsdup(const unsigned short *text) {
    size_t units = 0;
    if (!text) return NULL;
    while (text[units++]) continue;
    return copy_of(text, units * sizeof *text, mi_malloc(units * sizeof *text));
}

EXPORT int mi_dupenv_s(char **result, size_t *size, const char *name) {
    if (!result || !name) return EINVAL;
    const char *value = getenv(name);
    *result = value ? mi_strdup(value) : NULL;
    if (size) *size = *result ? strlen(*result) : 0;
    return value && !*result ? ENOMEM : 0;
}

// libc's block is recorded too: it comes and goes.
EXPORT void *mi_realpath(const char *name, char *result) {
    char *found = realpath(name, result);
    if (result || !found) return found;
    void *copy = mi_strdup(found);
    free(found);
    return copy;
}
EXPORT void *mi_heap_realpath(void *heap, const char *name, char *result) {
    char *found = realpath(name, result);
    if (result || !found) return found;
    void *copy = mi_heap_strdup(heap, found);
    free(found);
    return copy;
}

// Calls by which a program controls jemalloc, mimalloc or gperftools' tcmalloc.

// ---- mimalloc, tcmalloc ----

EXPORT void mi_collect(bool force) {
    static void *_Atomic known;
    void (*behind)(bool) = find(&known, "mi_collect");
    if (!behind) return;
    struct thread_state *t = wrap_begin_control(enter_record_first(), HT_CTL_MI_COLLECT, 0, force);
    behind(force);
    wrap_end_control(t);
}

EXPORT void MallocExtension_ReleaseFreeMemory(void) {
    static void *_Atomic known;
    void (*behind)(void) = find(&known, "MallocExtension_ReleaseFreeMemory");
    if (!behind) return;
    struct thread_state *t = wrap_begin_control(enter_record_first(), HT_CTL_RELEASE_FREE_MEMORY, 0, 0);
    behind();
    wrap_end_control(t);
}

EXPORT void MallocExtension_ReleaseToSystem(size_t bytes) {
    static void *_Atomic known;
    void (*behind)(size_t) = find(&known, "MallocExtension_ReleaseToSystem");
    if (!behind) return;
    struct thread_state *t =
        wrap_begin_control(enter_record_first(), HT_CTL_RELEASE_TO_SYSTEM, 0, (int64_t)bytes);
    behind(bytes);
    wrap_end_control(t);
}

// ---- jemalloc's mallctl ----

EXPORT int mallctl(const char *text, void *old, size_t *old_bytes, void *value, size_t bytes) {
    static void *_Atomic known;
    int (*behind)(const char *, void *, size_t *, void *, size_t) = find(&known, "mallctl");
    if (!behind) return ENOENT;
    struct thread_state *t = enter_record_first();
    if (t) {
        struct ht_control_call call = wrap_mallctl_call(text, value, bytes);
        wrap_begin_control(t, call.number, call.first, call.second);
    }
    int failed = behind(text, old, old_bytes, value, bytes);
    wrap_end_control(t);
    return failed;
}

EXPORT int mallctlnametomib(const char *text, size_t *mib, size_t *words) {
    static void *_Atomic known;
    int (*behind)(const char *, size_t *, size_t *) = find(&known, "mallctlnametomib");
    return behind ? behind(text, mib, words) : ENOENT;
}

// The numbers of a name that changes something, for arena 0. They are asked for once.
struct numbered {
    size_t words, mib[WRAP_MALLCTL_WORDS];
};

static const struct numbered *numbered_names(void) {
    static struct numbered table[WRAP_MALLCTL_NAMES];
    static _Atomic bool made;
    for (unsigned i = 0; i < WRAP_MALLCTL_NAMES && !made; i++) {
        table[i].words = WRAP_MALLCTL_WORDS;
        if (mallctlnametomib(wrap_mallctl_name(i), table[i].mib, &table[i].words)) table[i].words = 0;
    }
    made = true;
    return table;
}

// The number of the arena may be another one.
static struct ht_control_call call_of_mib(const size_t *mib, size_t words, const void *value, size_t bytes) {
    const struct numbered *table = numbered_names();
    for (unsigned i = 0; i < WRAP_MALLCTL_NAMES; i++) {
        bool same = words && words == table[i].words, of_arena = wrap_mallctl_has_arena(i);
        for (size_t w = 0; same && w < words; w++) same = mib[w] == table[i].mib[w] || (w == 1 && of_arena);
        if (!same) continue;
        struct ht_control_call call = wrap_mallctl_call(wrap_mallctl_name(i), value, bytes);
        if (of_arena && call.number != HT_CTL_MALLCTL) call.first = (int64_t)mib[1];
        return call;
    }
    return wrap_mallctl_call("by mib", value, bytes);
}

EXPORT int mallctlbymib(const size_t *mib, size_t words, void *old, size_t *old_bytes, void *value,
                        size_t bytes) {
    static void *_Atomic known;
    int (*behind)(const size_t *, size_t, void *, size_t *, void *, size_t) = find(&known, "mallctlbymib");
    if (!behind) return ENOENT;
    struct thread_state *t = enter_allocator_first();
    if (t) {
        struct ht_control_call call = call_of_mib(mib, words, value, bytes);
        set_gate(t, GATE_BUSY_OWN);
        wrap_begin_control(t, call.number, call.first, call.second);
    }
    int failed = behind(mib, words, old, old_bytes, value, bytes);
    wrap_end_control(t);
    return failed;
}
