// SPDX-License-Identifier: Apache-2.0
// Calls every C allocation function at random and prints each call as `heaptape dump --no-time` shows it,
// objects numbered by birth. Usage: calls_printed OUT [CALLS [SEED]]
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>

#include "target_support.h"

// jemalloc has no pvalloc: the call would reach glibc, and its block jemalloc's free. musl has none at all.
#if defined __GLIBC__ && !defined OWN_JEMALLOC
#define HAS_PVALLOC
#endif

enum { OBJECTS = 4096 };

// Which function may release the block: free_sized and free_aligned_sized accept only some.
enum origin { ORIGIN_PLAIN, ORIGIN_ALIGNED_ALLOC, ORIGIN_OTHER };

struct object {
    unsigned char *block;
    size_t size, alignment;
    unsigned long birth;
    enum origin origin;
};

static struct object objects[OBJECTS];
static unsigned long births;
static uint64_t random_state;
static struct plain_writer out;

// Not in every libc; the shim offers them all the same, and then they must be recorded.
static void (*call_free_sized)(void *, size_t);
static void (*call_free_aligned_sized)(void *, size_t, size_t);
static void (*call_cfree)(void *);

static size_t below(size_t limit) { return (size_t)(random_next(&random_state) >> 11) % limit; }

static size_t random_size(void) {
    size_t kind = below(1000);
    if (kind < 15) return 0;
    if (kind < 900) return 1 + below(500);
    if (kind < 990) return 1 + below(9000);
    if (kind < 999) return 1 + below(40000);
    return 1 + below(1 << 20);  // some above the size at which glibc maps a block of its own
}

static size_t random_alignment(void) { return (size_t)8 << below(10); }

static void fill(struct object *object) {
    size_t bytes = object->size < sizeof object->birth ? object->size : sizeof object->birth;
    memcpy(object->block, &object->birth, bytes);
}

// A shim that passed on a wrong size or block would show here.
static void check(const struct object *object) {
    size_t bytes = object->size < sizeof object->birth ? object->size : sizeof object->birth;
    if (memcmp(object->block, &object->birth, bytes)) target_fail("a block lost its content");
}

static void born(struct object *object, void *block, size_t size, enum origin origin) {
    *object = (struct object){.block = block, .size = size, .origin = origin};
    if (!block) {
        writer_print(&out, " = NULL (failed)\n");
        return;
    }
    object->birth = ++births;
    fill(object);
    writer_print(&out, " = #%lu\n", object->birth);
}

static void allocate(struct object *object) {
    size_t size = random_size(), alignment = random_alignment(), count;
    void *block = NULL;
    switch (below(12)) {
    default:
        block = malloc(size);
        writer_print(&out, "malloc(%zu)", size);
        born(object, block, size, ORIGIN_PLAIN);
        break;
    case 0:
    case 1:
        count = below(20);
        size = below(600);
        block = calloc(count, size);
        writer_print(&out, "calloc(%zu, %zu)", count, size);
        for (size_t i = 0; block && i < count * size; i++)
            if (((unsigned char *)block)[i]) target_fail("calloc returned a block that is not zero");
        born(object, block, count * size, ORIGIN_PLAIN);
        break;
    case 2:
        block = realloc(NULL, size);
        writer_print(&out, "realloc(NULL, %zu)", size);
        born(object, block, size, ORIGIN_PLAIN);
        break;
    case 3:
        count = 1 + below(20);
        size = 1 + below(600);
        block = reallocarray(NULL, count, size);
        writer_print(&out, "reallocarray(NULL, %zu, %zu)", count, size);
        born(object, block, count * size, ORIGIN_PLAIN);
        break;
    case 4:
        if (posix_memalign(&block, alignment, size)) block = NULL;
        writer_print(&out, "posix_memalign(%zu, %zu)", alignment, size);
        born(object, block, size, ORIGIN_OTHER);
        break;
    case 5:
        size = (size / alignment + 1) * alignment;
        block = aligned_alloc(alignment, size);
        writer_print(&out, "aligned_alloc(%zu, %zu)", alignment, size);
        born(object, block, size, ORIGIN_ALIGNED_ALLOC);
        object->alignment = alignment;
        break;
    case 6:
        block = memalign(alignment, size);
        writer_print(&out, "memalign(%zu, %zu)", alignment, size);
        born(object, block, size, ORIGIN_OTHER);
        break;
    case 7:
        block = valloc(size);
        writer_print(&out, "valloc(%zu)", size);
        born(object, block, size, ORIGIN_OTHER);
        break;
#ifdef HAS_PVALLOC
    case 8:
        block = pvalloc(size);
        writer_print(&out, "pvalloc(%zu)", size);
        born(object, block, size, ORIGIN_OTHER);
        break;
#endif
    }
}

static void release(struct object *object) {
    check(object);
    size_t kind = below(8);
    // Printed before the call: the lines stand in program order either way.
    if (kind == 0 && call_free_sized && object->origin == ORIGIN_PLAIN) {
        writer_print(&out, "free_sized(#%lu, %zu)\n", object->birth, object->size);
        call_free_sized(object->block, object->size);
    } else if (kind < 4 && call_free_aligned_sized && object->origin == ORIGIN_ALIGNED_ALLOC) {
        writer_print(&out, "free_aligned_sized(#%lu, %zu, align %zu)\n", object->birth, object->size,
                     object->alignment);
        call_free_aligned_sized(object->block, object->alignment, object->size);
    } else if (kind == 1 && call_cfree) {
        writer_print(&out, "cfree(#%lu)\n", object->birth);
        call_cfree(object->block);
    } else {
        writer_print(&out, "free(#%lu)\n", object->birth);
        free(object->block);
    }
    object->block = NULL;
}

static void resized(struct object *object, void *block, size_t size) {
    if (block) {
        writer_print(&out, " = #%lu\n", object->birth);
        size_t kept = size < object->size ? size : object->size;
        object->block = block;
        object->size = kept;
        check(object);
        object->size = size;
        fill(object);
        if (object->origin == ORIGIN_ALIGNED_ALLOC) object->origin = ORIGIN_PLAIN;
    } else {
        writer_print(&out, " = NULL (released)\n");
        object->block = NULL;
    }
}

// An allocator may refuse any request; the old block must then be whole, and the line says so.
static void resize(struct object *object) {
    check(object);
    size_t size = random_size(), count = 1;
    int array = below(3) == 0;
    if (array) {
        count = below(10) ? 1 + below(20) : 0;
        size = 1 + below(400);
    }
    size_t bytes = count * size;
    errno = 0;
    void *block = array ? reallocarray(object->block, count, size) : realloc(object->block, size);
    int failed = !block && (bytes || errno);
    const char *name = array ? "reallocarray(" : "realloc(";
    if (failed) writer_print(&out, "%s?", name);
    else writer_print(&out, "%s#%lu", name, object->birth);
    if (array) writer_print(&out, ", %zu", count);
    writer_print(&out, ", %zu)", size);
    if (failed) writer_print(&out, " = NULL (failed)\n");
    else resized(object, block, bytes);
}

static void must_fail(const void *block) {
    if (block) target_fail("a call that cannot succeed did");
    writer_print(&out, " = NULL (failed)\n");
}

static void fail(struct object *object) {
    static const size_t bad_alignments[] = {0, 1, 3, 4, 24, 48, 1000};
    volatile size_t huge = SIZE_MAX / 2;
    size_t alignment = random_alignment();
    void *block = NULL;
    switch (below(10)) {
    case 0:
        block = malloc(huge);
        writer_print(&out, "malloc(%zu)", huge);
        break;
    case 1:
        block = calloc(huge / 4, 16);
        writer_print(&out, "calloc(%zu, 16)", huge / 4);
        break;
    case 2:
        block = realloc(NULL, huge);
        writer_print(&out, "realloc(?, %zu)", huge);
        break;
    case 3:
        if (!object->block) return;
        block = realloc(object->block, huge);
        check(object);
        writer_print(&out, "realloc(?, %zu)", huge);
        break;
    case 4:
        block = reallocarray(object->block, huge, 16);
        if (object->block) check(object);
        writer_print(&out, "reallocarray(?, %zu, 16)", huge);
        break;
    case 5:
        alignment = bad_alignments[below(sizeof bad_alignments / sizeof bad_alignments[0])];
        if (posix_memalign(&block, alignment, 100) != EINVAL) target_fail("alignment accepted");
        block = NULL;
        writer_print(&out, "posix_memalign(%zu, 100)", alignment);
        break;
    case 6:
        block = aligned_alloc(alignment, huge + 1 - alignment);
        writer_print(&out, "aligned_alloc(%zu, %zu)", alignment, huge + 1 - alignment);
        break;
    case 7:
        block = memalign(alignment, huge);
        writer_print(&out, "memalign(%zu, %zu)", alignment, huge);
        break;
    case 8:
        block = valloc(huge);
        writer_print(&out, "valloc(%zu)", huge);
        break;
    default:
#ifdef HAS_PVALLOC
        block = pvalloc(huge);
        writer_print(&out, "pvalloc(%zu)", huge);
#else
        return;
#endif
    }
    must_fail(block);
}

static void one_call(size_t live_target) {
    struct object *object = &objects[below(OBJECTS)];
    size_t kind = below(1000);
    if (kind < 5) {
        fail(object);
    } else if (kind < 15) {
        free(NULL);
        writer_print(&out, "free(NULL)\n");
    } else if (!object->block) {
        // The number of live objects swings, so that slots are both reused and newly made.
        if (below(OBJECTS) < live_target) allocate(object);
    } else if (kind < 300) {
        resize(object);
    } else {
        release(object);
    }
}

static void find_optional_functions(void) {
    call_free_sized = dlsym(RTLD_DEFAULT, "free_sized");
    call_free_aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
#ifndef OWN_JEMALLOC  // as for pvalloc
    call_cfree = dlsym(RTLD_DEFAULT, "cfree");
#endif
}

static unsigned long lines_written;

int main(int argc, char **argv) {
    if (argc < 2) target_fail("usage: calls_printed OUT [CALLS [SEED]]");
    unsigned long calls = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    random_state = argc > 3 ? strtoul(argv[3], NULL, 10) * 2 + 1 : 20817;
    find_optional_functions();
    writer_open(&out, argv[1]);
    marker(MARKER_BEGIN);
    while (lines_written < calls) {
        size_t before = out.used;
        one_call(lines_written / 65536 % 2 ? OBJECTS / 4 : OBJECTS);
        lines_written += out.used != before;
    }
    for (size_t i = 0; i < OBJECTS; i++)
        if (objects[i].block) release(&objects[i]);
    marker(MARKER_END);
    writer_close(&out);
    return 0;
}
