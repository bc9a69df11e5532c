// SPDX-License-Identifier: Apache-2.0
// For targets that call an allocator by its own names and print each call as `heaptape dump --no-time` shows
// it: as the standard function that does the same. Usage: TARGET OUT [CALLS]
#ifndef HEAPTAPE_OWN_FUNCTIONS_TARGET_H
#define HEAPTAPE_OWN_FUNCTIONS_TARGET_H

#include "target_support.h"

struct object {
    unsigned char *block;
    size_t size, alignment;
    unsigned long birth;
};

static uint64_t random_state = 41635;
static unsigned long births;
static struct plain_writer out;

static inline size_t below(size_t limit) { return (size_t)(random_next(&random_state) >> 11) % limit; }

static inline size_t random_size(void) {
    size_t kind = below(1000);
    if (kind < 900) return 1 + below(500);
    return kind < 995 ? 1 + below(9000) : 1 + below(1 << 20);
}

static inline size_t random_alignment(void) { return (size_t)8 << below(8); }

static inline void fill(struct object *object) {
    size_t bytes = object->size < sizeof object->birth ? object->size : sizeof object->birth;
    memcpy(object->block, &object->birth, bytes);
}

static inline void check(const struct object *object, size_t bytes) {
    if (bytes > object->size) bytes = object->size;
    if (bytes > sizeof object->birth) bytes = sizeof object->birth;
    if (memcmp(object->block, &object->birth, bytes)) target_fail("a block lost its content");
}

// The line of the call is printed but for its result.
static inline void born(struct object *object, void *block, size_t size, size_t alignment) {
    if (!block) target_fail("no block");
    if (alignment && (uintptr_t)block % alignment) target_fail("a block is not aligned");
    *object = (struct object){block, size, alignment, ++births};
    fill(object);
    writer_print(&out, " = #%lu\n", births);
}

static inline void resized(struct object *object, void *block, size_t size) {
    if (!block) target_fail("no block");
    object->block = block;
    check(object, size);
    object->size = size;
    fill(object);
    writer_print(&out, " = #%lu\n", object->birth);
}

// In place or not at all: the line names no object then.
static inline void expanded(struct object *object, const char *call, int done, size_t size) {
    check(object, object->size);
    if (done) writer_print(&out, "%s(#%lu, %zu) = #%lu\n", call, object->birth, size, object->birth);
    else writer_print(&out, "%s(?, %zu) = NULL (failed)\n", call, size);
    if (done) object->size = size;
    if (done) fill(object);
}

// What is done with an object: allocated if it has no block, else mostly released.
struct turns {
    void (*allocate)(struct object *), (*change)(struct object *), (*release)(struct object *);
};

static inline void take_turns(struct object *objects, size_t count, unsigned long calls,
                              const struct turns *turns) {
    for (unsigned long i = 0; i < calls; i++) {
        struct object *object = &objects[below(count)];
        if (!object->block) turns->allocate(object);
        else if (below(3) == 0) turns->change(object);
        else turns->release(object);
    }
}

// All the calls of a target, each of which prints its line: so many turns, those that are rare, and what is left released.
static inline void print_calls(const char *path, unsigned long calls, const struct turns *turns,
                               void (*rare_calls)(void)) {
    enum { OBJECTS = 512 };
    static struct object objects[OBJECTS];
    writer_open(&out, path);
    marker(MARKER_BEGIN);
    take_turns(objects, OBJECTS, calls, turns);
    rare_calls();
    for (unsigned i = 0; i < OBJECTS; i++)
        if (objects[i].block) turns->release(&objects[i]);
    marker(MARKER_END);
    writer_close(&out);
}

static inline void must_be_zero(const unsigned char *block, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (block[i]) target_fail("a block is not zero");
}

#endif
