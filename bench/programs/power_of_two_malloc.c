// SPDX-License-Identifier: Apache-2.0
// A small malloc with a mistake: blocks of powers of two in free lists of each thread, from mappings of a megabyte.
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define CLASSES         48
#define LEAST_ALIGNMENT 16
#define MAPPING_BYTES   ((size_t)1 << 20)

struct header {  // in front of what the program gets
    size_t class;
    char *start;
};

struct freed {
    struct freed *next;
};

static __thread struct freed *lists[CLASSES];
static __thread char *room, *room_end;

static void *take_room(size_t bytes) {
    if (bytes > (size_t)(room_end - room)) {
        size_t more = bytes > MAPPING_BYTES ? bytes : MAPPING_BYTES;
        void *mapping = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping == MAP_FAILED) return NULL;
        room = mapping;
        room_end = room + more;
    }
    room += bytes;
    return room - bytes;
}

void *memalign(size_t alignment, size_t size) {
    if (alignment < LEAST_ALIGNMENT) alignment = LEAST_ALIGNMENT;
    if (size >> (CLASSES - 1)) {
        errno = ENOMEM;
        return NULL;
    }
    size_t class = 5;
    while (class < CLASSES && (size_t)1 << class < size + sizeof(struct header) + alignment - LEAST_ALIGNMENT)
        class ++;
    char *start = NULL;
    if (class < CLASSES && lists[class]) {
        start = (char *)lists[class];
        lists[class] = lists[class]->next;
    } else if (class < CLASSES && size < (size_t)1 << (CLASSES - 1)) {
        start = take_room((size_t)1 << class);
    }
    if (!start) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = (char *)(((size_t)start + sizeof(struct header) + alignment - 1) & -alignment);
    ((struct header *)block)[-1] = (struct header){class, start};
    return block;
}

void free(void *block) {
    if (!block) return;
    struct header header = ((struct header *)block)[-1];
    struct freed *freed = (struct freed *)header.start;
    freed->next = lists[header.class];
    lists[header.class] = freed;
}

size_t malloc_usable_size(void *block) {
    if (!block) return 0;
    struct header *header = (struct header *)block - 1;
    return (size_t)(header->start + ((size_t)1 << header->class) - (char *)block);
}

void *malloc(size_t size) { return memalign(LEAST_ALIGNMENT, size); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *old, size_t size) {
    size_t usable = malloc_usable_size(old);
    void *block = malloc(size);
    if (!old || !block) return block;
    memcpy(block, old, usable < size ? usable : size);
    free(old);
    return block;
}
