// SPDX-License-Identifier: Apache-2.0
// The recorder's interface for allocators that it cannot hook: those linked into the program, under whatever names. Whoever
// calls such an allocator hands each call to the recorder, if that is preloaded. docs/reference/linked-allocators.md
//
//     static const struct heaptape_recorder *recorder;  // once: heaptape_recorder_find()
//
//     void *my_malloc(size_t size) {
//         if (!recorder) return allocate(size);
//         struct heaptape_call call;
//         recorder->begin_allocation(&call);
//         void *block = allocate(size);
//         recorder->end_allocation(&call, HEAPTAPE_MALLOC, block, 1, size, 0);
//         return block;
//     }
//
// Nothing here is to be linked. What is declared here stays as it is: a later version appends to the structure, and has a new
// HEAPTAPE_RECORDER_VERSION.
#ifndef HEAPTAPE_RECORDER_H
#define HEAPTAPE_RECORDER_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAPTAPE_RECORDER_VERSION 1

// The functions of which a call can be one; numbers as in docs/reference/trace-format.md.
enum heaptape_function {
    HEAPTAPE_MALLOC = 1,
    HEAPTAPE_CALLOC = 2,
    HEAPTAPE_FREE = 5,
    HEAPTAPE_POSIX_MEMALIGN = 6,
    HEAPTAPE_ALIGNED_ALLOC = 7,
    HEAPTAPE_MEMALIGN = 8,
    HEAPTAPE_FREE_SIZED = 11,
    HEAPTAPE_FREE_ALIGNED_SIZED = 12,
    HEAPTAPE_NEW = 14,
    HEAPTAPE_NEW_ARRAY = 15,
    HEAPTAPE_NEW_ALIGNED = 16,
    HEAPTAPE_NEW_ARRAY_ALIGNED = 17,
    HEAPTAPE_DELETE = 18,
    HEAPTAPE_DELETE_ARRAY = 19,
    HEAPTAPE_DELETE_SIZED = 20,
    HEAPTAPE_DELETE_ARRAY_SIZED = 21,
    HEAPTAPE_DELETE_ALIGNED = 22,
    HEAPTAPE_DELETE_ARRAY_ALIGNED = 23,
    HEAPTAPE_DELETE_SIZED_ALIGNED = 24,
    HEAPTAPE_DELETE_ARRAY_SIZED_ALIGNED = 25
};

// One call under way: on the caller's stack, the recorder's to fill.
struct heaptape_call {
    uint64_t words[12];
};

// The two halves of a call come from one function, in one thread, around the allocator's work. What the allocator calls
// meanwhile (malloc, mmap) is its own: not recorded, and its memory counts as heap. errno stays as the allocator left it.
struct heaptape_recorder {
    uint32_t version;  // the highest that it has
    uint32_t bytes;    // of this structure
    // The allocator that serves the calls, as `heaptape replay --alloc` names it; at most 31 characters. Call it once, before
    // the first call.
    void (*name_allocator)(const char *name);
    // block NULL: the call failed. count: of calloc, otherwise 1. alignment: of an aligned function, otherwise 0. An unknown
    // function is recorded as malloc.
    void (*begin_allocation)(struct heaptape_call *call);
    void (*end_allocation)(struct heaptape_call *call, unsigned function, void *block, size_t count,
                           size_t size, size_t alignment);
    // realloc. former may be NULL. block NULL: the call failed, and the former block is as it was; with size 0, it is freed.
    void (*begin_resize)(struct heaptape_call *call, void *former, size_t size);
    void (*end_resize)(struct heaptape_call *call, void *block);
    // size and alignment: where the function has them. An unknown function is recorded as free.
    void (*begin_free)(struct heaptape_call *call, unsigned function, void *block, size_t size,
                       size_t alignment);
    void (*end_free)(struct heaptape_call *call);
};

// What libmalloc_wrap.so exports: NULL if it does not have that version.
const struct heaptape_recorder *heaptape_recorder(uint32_t version);

// The recorder, NULL if none is preloaded. In a static program there is none.
static inline const struct heaptape_recorder *heaptape_recorder_find(void) {
    const struct heaptape_recorder *(*find)(uint32_t);
    *(void **)&find = dlsym(NULL, "heaptape_recorder");
    return find ? find(HEAPTAPE_RECORDER_VERSION) : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
