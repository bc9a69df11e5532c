// SPDX-License-Identifier: Apache-2.0
// What a program expects of a malloc besides musl's files for it.
#include <pthread.h>

#include <meta.h>

size_t heaptape_mallocng_slots(void);

// Bytes of all slots.
size_t heaptape_mallocng_slots(void) {
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof ctx.usage_by_class / sizeof *ctx.usage_by_class; i++)
        bytes += ctx.usage_by_class[i] * size_classes[i] * UNIT;
    return bytes;
}

void *valloc(size_t size) { return memalign(PGSZ, size); }

static void reset_lock(void) { __malloc_lock[0] = 0; }

__attribute__((constructor)) static void prepare_for_forks(void) {
    pthread_atfork(rdlock, unlock, reset_lock);
}
