// SPDX-License-Identifier: Apache-2.0
// mimalloc's own functions, at random. Usage: own_functions_mimalloc OUT [CALLS]
#include <limits.h>
#include <mimalloc.h>

#include "own_functions_target.h"

enum { OBJECTS = 512, DOOMED = 1000 };

// The alignment of a block that was resized: mimalloc 3.6 takes a size at its word, so it is freed without one.
enum { RESIZED = 1 };

static mi_heap_t *heap;

// A block, and with it the line of the call but for the result.
#define MAKE(call, size, alignment, ...)                                                                     \
    do {                                                                                                     \
        void *made = call;                                                                                   \
        writer_print(&out, __VA_ARGS__);                                                                     \
        born(object, made, size, alignment);                                                                 \
    } while (0)

static void allocate_plain(struct object *object) {
    size_t size = random_size(), small = 1 + below(MI_SMALL_SIZE_MAX), count = 1 + below(20);
    size_t bytes = count * small;
    switch (below(18)) {
    case 0: MAKE(mi_malloc(size), size, 0, "malloc(%zu)", size); break;
    case 1: MAKE(mi_heap_malloc(heap, size), size, 0, "malloc(%zu)", size); break;
    case 2: MAKE(mi_malloc_small(small), small, 0, "malloc(%zu)", small); break;
    case 3: MAKE(mi_heap_malloc_small(heap, small), small, 0, "malloc(%zu)", small); break;
    case 4: MAKE(mi_mallocn(count, small), bytes, 0, "malloc(%zu)", bytes); break;
    case 5: MAKE(mi_heap_mallocn(heap, count, small), bytes, 0, "malloc(%zu)", bytes); break;
    case 6: MAKE(mi_zalloc(size), size, 0, "calloc(1, %zu)", size); break;
    case 7: MAKE(mi_heap_zalloc(heap, size), size, 0, "calloc(1, %zu)", size); break;
    case 8: MAKE(mi_zalloc_small(small), small, 0, "calloc(1, %zu)", small); break;
    case 9: MAKE(mi_calloc(count, small), bytes, 0, "calloc(%zu, %zu)", count, small); break;
    case 10: MAKE(mi_heap_calloc(heap, count, small), bytes, 0, "calloc(%zu, %zu)", count, small); break;
    case 11: MAKE(mi_new(size), size, 0, "new(%zu)", size); break;
    case 12: MAKE(mi_new_nothrow(size), size, 0, "new(%zu)", size); break;
    case 13: MAKE(mi_new_n(count, small), bytes, 0, "new(%zu)", bytes); break;
    case 14: MAKE(mi_heap_alloc_new(heap, size), size, 0, "new(%zu)", size); break;
    case 15: MAKE(mi_realloc(NULL, size), size, 0, "realloc(NULL, %zu)", size); break;
    case 16:
        MAKE(mi_reallocn(NULL, count, small), bytes, 0, "reallocarray(NULL, %zu, %zu)", count, small);
        break;
    default: MAKE(malloc(size), size, 0, "malloc(%zu)", size); break;
    }
}

static void allocate_aligned(struct object *object) {
    size_t size = random_size(), count = 1 + below(20), one = 1 + below(400), a = random_alignment();
    size_t bytes = count * one;
    void *block = NULL;
    switch (below(14)) {
    case 0: MAKE(mi_malloc_aligned(size, a), size, a, "aligned_alloc(%zu, %zu)", a, size); break;
    case 1: MAKE(mi_heap_malloc_aligned(heap, size, a), size, a, "aligned_alloc(%zu, %zu)", a, size); break;
    case 2: MAKE(mi_malloc_aligned_at(size, a, 0), size, a, "aligned_alloc(%zu, %zu)", a, size); break;
    case 3: MAKE(mi_zalloc_aligned(size, a), size, a, "aligned_alloc(%zu, %zu)", a, size); break;
    case 4: MAKE(mi_heap_zalloc_aligned(heap, size, a), size, a, "aligned_alloc(%zu, %zu)", a, size); break;
    case 5: MAKE(mi_calloc_aligned(count, one, a), bytes, a, "aligned_alloc(%zu, %zu)", a, bytes); break;
    case 6:
        MAKE(mi_heap_calloc_aligned(heap, count, one, a), bytes, a, "aligned_alloc(%zu, %zu)", a, bytes);
        break;
    case 7: MAKE(mi_aligned_alloc(a, size), size, a, "aligned_alloc(%zu, %zu)", a, size); break;
    case 8: MAKE(mi_memalign(a, size), size, a, "memalign(%zu, %zu)", a, size); break;
    case 9: MAKE(mi_valloc(size), size, 4096, "valloc(%zu)", size); break;
    case 10: MAKE(mi_pvalloc(size), size, 4096, "pvalloc(%zu)", size); break;
    case 11: MAKE(mi_new_aligned(size, a), size, a, "new_aligned(%zu, %zu)", a, size); break;
    case 12: MAKE(mi_new_aligned_nothrow(size, a), size, a, "new_aligned(%zu, %zu)", a, size); break;
    default:
        if (mi_posix_memalign(&block, a, size)) target_fail("mi_posix_memalign failed");
        MAKE(block, size, a, "posix_memalign(%zu, %zu)", a, size);
    }
}

static void resize(struct object *object) {
    size_t size = random_size(), count = 1 + below(20), one = 1 + below(400), kind = below(14);
    int array = kind >= 8;
    void *block = object->block;
    check(object, object->size);
    if (array) writer_print(&out, "reallocarray(#%lu, %zu, %zu)", object->birth, count, one);
    else writer_print(&out, "realloc(#%lu, %zu)", object->birth, size);
    if (object->alignment || kind == 5 || kind == 6) object->alignment = RESIZED;
    switch (kind) {
    case 0: block = mi_realloc(block, size); break;
    case 1: block = mi_heap_realloc(heap, block, size); break;
    case 2: block = mi_reallocf(block, size); break;
    case 3: block = mi_heap_reallocf(heap, block, size); break;
    case 4: block = mi_rezalloc(block, size); break;
    case 5: block = mi_realloc_aligned(block, size, 64); break;
    case 6: block = mi_rezalloc_aligned(block, size, 64); break;
    case 7: block = mi_new_realloc(block, size); break;
    case 8: block = mi_reallocn(block, count, one); break;
    case 9: block = mi_heap_reallocn(heap, block, count, one); break;
    case 10: block = mi_reallocarray(block, count, one); break;
    case 11: block = mi_recalloc(block, count, one); break;
    case 12: block = mi_new_reallocn(block, count, one); break;
    default:
        if (mi_reallocarr(&block, count, one)) target_fail("mi_reallocarr failed");
    }
    resized(object, block, array ? count * one : size);
}

static void expand(struct object *object) {
    size_t size = below(4) ? object->size + below(16) : random_size();
    void *block = mi_expand(object->block, size);
    if (block && block != object->block) target_fail("mi_expand moved a block");
    if (block) object->alignment = RESIZED;
    expanded(object, "realloc", block != NULL, size);
}

static void release(struct object *object) {
    check(object, object->size);
    size_t kind = below(6);
    if (kind == 0 && object->alignment) kind = 5;
    if ((kind == 1 || kind == 2) && object->alignment <= RESIZED) kind = 5;
    if (kind == 0) writer_print(&out, "free_sized(#%lu, %zu)\n", object->birth, object->size);
    else if (kind == 1)
        writer_print(&out, "free_aligned_sized(#%lu, %zu, align %zu)\n", object->birth, object->size,
                     object->alignment);
    else if (kind == 3) writer_print(&out, "cfree(#%lu)\n", object->birth);
    else writer_print(&out, "free(#%lu)\n", object->birth);
    switch (kind) {
    case 0: mi_free_size(object->block, object->size); break;
    case 1: mi_free_size_aligned(object->block, object->size, object->alignment); break;
    case 2: mi_free_aligned(object->block, object->alignment); break;
    case 3: mi_cfree(object->block); break;
    case 4: free(object->block); break;
    default: mi_free(object->block);
    }
    object->block = NULL;
}

#if MI_MALLOC_VERSION >= 30600
static size_t told_bytes;

static void *told(void *block, size_t size) {
    if (told_bytes < size) target_fail("a block is smaller than was asked for");
    return block;
}

static void allocate_new(struct object *object) {
    size_t size = random_size(), small = 1 + below(MI_SMALL_SIZE_MAX), count = 1 + below(20);
    size_t bytes = count * small, a = random_alignment(), *told_to = &told_bytes;
    mi_theap_t *theap = mi_heap_theap(heap);
    switch (below(17)) {
    case 0: MAKE(mi_theap_malloc(theap, size), size, 0, "malloc(%zu)", size); break;
    case 1: MAKE(mi_theap_malloc_small(theap, small), small, 0, "malloc(%zu)", small); break;
    case 2: MAKE(mi_theap_zalloc(theap, size), size, 0, "calloc(1, %zu)", size); break;
    case 3: MAKE(mi_theap_zalloc_small(theap, small), small, 0, "calloc(1, %zu)", small); break;
    case 4: MAKE(mi_heap_zalloc_small(heap, small), small, 0, "calloc(1, %zu)", small); break;
    case 5: MAKE(mi_theap_calloc(theap, count, small), bytes, 0, "calloc(%zu, %zu)", count, small); break;
    case 6: MAKE(mi_theap_malloc_aligned(theap, size, a), size, a, "aligned_alloc(%zu, %zu)", a, size); break;
    case 7: MAKE(mi_theap_zalloc_aligned(theap, size, a), size, a, "aligned_alloc(%zu, %zu)", a, size); break;
    case 8: MAKE(mi_theap_alloc_new(theap, size), size, 0, "new(%zu)", size); break;
    case 9: MAKE(mi_theap_alloc_new_nothrow(theap, size), size, 0, "new(%zu)", size); break;
    case 10: MAKE(mi_theap_alloc_new_n(theap, count, small), bytes, 0, "new(%zu)", bytes); break;
    case 11: MAKE(told(mi_umalloc(size, told_to), size), size, 0, "malloc(%zu)", size); break;
    case 12: MAKE(told(mi_umalloc_small(small, told_to), small), small, 0, "malloc(%zu)", small); break;
    case 13: MAKE(told(mi_uzalloc_small(small, told_to), small), small, 0, "calloc(1, %zu)", small); break;
    case 14:
        MAKE(told(mi_ucalloc(count, small, told_to), bytes), bytes, 0, "calloc(%zu, %zu)", count, small);
        break;
    case 15:
        MAKE(told(mi_umalloc_aligned(size, a, told_to), size), size, a, "aligned_alloc(%zu, %zu)", a, size);
        break;
    default: MAKE(told(mi_uzalloc_aligned(size, a, NULL), 0), size, a, "aligned_alloc(%zu, %zu)", a, size);
    }
}

static void resize_new(struct object *object) {
    size_t size = random_size(), before = 0, kind = below(3);
    void *block = object->block;
    check(object, object->size);
    writer_print(&out, "realloc(#%lu, %zu)", object->birth, size);
    if (kind == 0) block = mi_theap_realloc(mi_heap_theap(heap), block, size);
    else if (kind == 1) block = mi_theap_rezalloc(mi_heap_theap(heap), block, size);
    else block = told(mi_urealloc(block, size, &before, &told_bytes), size);
    if (kind == 2 && before < object->size) target_fail("a block was smaller than was asked for");
    if (object->alignment) object->alignment = RESIZED;
    resized(object, block, size);
}

static void release_new(struct object *object) {
    size_t kind = object->size <= MI_SMALL_SIZE_MAX && !object->alignment ? below(5) : 4;
    check(object, object->size);
    writer_print(&out, "free(#%lu)\n", object->birth);
    if (kind == 0) mi_free_small(object->block);
    else if (kind == 1) mi_free_small_nonnull(object->block);
    else if (kind == 2) mi_free_small_local(object->block);
    else if (kind == 3) mi_free_small_local_nonnull(object->block);
    else mi_ufree(object->block, &told_bytes);
    if (kind == 4) told(object->block, object->size);
    object->block = NULL;
}

static void turn_new(struct object *object) {
    if (!object->block) allocate_new(object);
    else if (below(3)) release_new(object);
    else resize_new(object);
}
#endif

static void fail(struct object *object) {
    volatile size_t huge = (size_t)1 << 62;  // the compiler would warn of the product
    if (mi_malloc(huge) || mi_reallocarray(object->block, huge, 16)) target_fail("it cannot succeed");
    check(object, object->size);
    writer_print(&out, "malloc(%zu) = NULL (failed)\nreallocarray(?, %zu, 16) = NULL (failed)\n", huge, huge);
    mi_free(NULL);
    writer_print(&out, "free(NULL)\n");
    if (mi_reallocf(object->block, huge)) target_fail("it cannot succeed");
    writer_print(&out, "realloc(?, %zu) = NULL (failed)\nfree(#%lu)\n", huge, object->birth);
    object->block = NULL;
}

static void strings(void) {
    struct object one, *object = &one;
    MAKE(mi_strdup("ninechars"), 10, 0, "malloc(10)");
    writer_print(&out, "free(#%lu)\n", object->birth);
    mi_free(object->block);
    char *text = mi_heap_strndup(heap, "ninechars", 4);
    if (strcmp(text, "nine")) target_fail("mi_heap_strndup lied");
    MAKE(text, 5, 0, "malloc(5)");
    writer_print(&out, "free(#%lu)\n", object->birth);
    mi_free(object->block);
}

// How libc makes the path is its own business: this is not printed.
static void resolve_path(void) {
    char *path = mi_realpath("/", NULL), room[PATH_MAX];
    if (!path || strcmp(path, "/")) target_fail("mi_realpath lied");
    if (!mi_realpath("/", room) || strcmp(room, "/")) target_fail("mi_realpath lied");
    mi_free(path);
}

int main(int argc, char **argv) {
    static struct object objects[OBJECTS];
    if (argc < 2) target_fail("usage: own_functions_mimalloc OUT [CALLS]");
    unsigned long calls = argc > 2 ? strtoul(argv[2], NULL, 10) : 100000;
    writer_open(&out, argv[1]);
    heap = mi_heap_new();
    resolve_path();
    marker(MARKER_BEGIN);
    for (unsigned long i = 0; i < calls; i++) {
        struct object *object = &objects[below(OBJECTS)];
        size_t kind = below(9);
#if MI_MALLOC_VERSION >= 30600
        if (below(4) == 0) {
            turn_new(object);
            continue;
        }
#endif
        if (!object->block && below(3)) allocate_plain(object);
        else if (!object->block) allocate_aligned(object);
        else if (kind < 2) resize(object);
        else if (kind < 4) expand(object);
        else release(object);
    }
    strings();
    if (!objects[0].block) allocate_plain(&objects[0]);
    fail(&objects[0]);
    for (unsigned i = 0; i < OBJECTS; i++)
        if (objects[i].block) release(&objects[i]);
    marker(MARKER_END);
    for (unsigned i = 0; i < DOOMED; i++) *(char *)mi_heap_malloc(heap, random_size()) = 1;
    mi_heap_destroy(heap);
    writer_close(&out);
    return 0;
}
