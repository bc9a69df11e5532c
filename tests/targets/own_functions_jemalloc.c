// SPDX-License-Identifier: Apache-2.0
// jemalloc's extended functions, at random. Usage: own_functions_jemalloc OUT [CALLS]
#include <jemalloc/jemalloc.h>

#include "own_functions_target.h"

enum { OBJECTS = 512 };

static void allocate(struct object *object) {
    size_t size = random_size(), alignment = random_alignment();
    void *block;
    switch (below(4)) {
    case 0:
        block = mallocx(size, MALLOCX_TCACHE_NONE);
        writer_print(&out, "malloc(%zu)", size);
        born(object, block, size, 0);
        break;
    case 1:
        block = mallocx(size, MALLOCX_ZERO);
        must_be_zero(block, size);
        writer_print(&out, "calloc(1, %zu)", size);
        born(object, block, size, 0);
        break;
    case 2:
        block = mallocx(size, MALLOCX_ALIGN(alignment) | MALLOCX_ZERO);
        must_be_zero(block, size);
        writer_print(&out, "aligned_alloc(%zu, %zu)", alignment, size);
        born(object, block, size, alignment);
        break;
    default:
        block = malloc(size);
        writer_print(&out, "malloc(%zu)", size);
        born(object, block, size, 0);
    }
}

static size_t asked(const struct object *object) {
    writer_print(&out, "malloc_usable_size(#%lu)\n", object->birth);
    return sallocx(object->block, 0);
}

static void change(struct object *object) {
    size_t size = random_size();
    check(object, object->size);
    if (below(3)) {
        // Mostly near what it has, so that it can stay where it is.
        if (below(4)) size = object->size + below(16);
        size_t now = xallocx(object->block, size, 0, 0);
        expanded(object, "realloc", now >= size, size);
        if (now != asked(object)) target_fail("xallocx lied");
        return;
    }
    writer_print(&out, "realloc(#%lu, %zu)", object->birth, size);
    object->alignment = 0;
    resized(object, rallocx(object->block, size, 0), size);
}

static void release(struct object *object) {
    check(object, object->size);
    size_t kind = below(3);
    int flags = object->alignment ? MALLOCX_ALIGN(object->alignment) : 0;
    // A block that xallocx left larger than it was asked for has another size.
    if (nallocx(object->size, flags) != asked(object)) kind = 1;
    if (kind == 0 && object->alignment) {
        writer_print(&out, "free_aligned_sized(#%lu, %zu, align %zu)\n", object->birth, object->size,
                     object->alignment);
        sdallocx(object->block, object->size, flags);
    } else if (kind == 0) {
        writer_print(&out, "free_sized(#%lu, %zu)\n", object->birth, object->size);
        sdallocx(object->block, object->size, flags);
    } else {
        writer_print(&out, "free(#%lu)\n", object->birth);
        if (kind == 1) dallocx(object->block, 0);
        else free(object->block);
    }
    object->block = NULL;
}

static void rare_calls(void) {
    if (mallocx((size_t)1 << 62, 0)) target_fail("a call that cannot succeed did");
    writer_print(&out, "malloc(%zu) = NULL (failed)\n", (size_t)1 << 62);
}

int main(int argc, char **argv) {
    if (argc < 2) target_fail("usage: own_functions_jemalloc OUT [CALLS]");
    unsigned long calls = argc > 2 ? strtoul(argv[2], NULL, 10) : 100000;
    print_calls(argv[1], calls, &(struct turns){allocate, change, release}, rare_calls);
    return 0;
}
