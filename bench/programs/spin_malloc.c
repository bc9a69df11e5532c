// A preloaded malloc that is slower by a known time: the C library's, after a spin of about SPIN_NS. What
// bench/figures/aa.py must find slower. All functions are here, so that every call reaches one object.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "next_malloc.h"

#ifndef SPIN_NS
#error "SPIN_NS expected"
#endif

static uint32_t turns;  // of the spin

static void spin(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) __asm__ volatile("" : "+r"(i));
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// How many turns take SPIN_NS, from the fastest of some attempts, as it is the spin's own time that counts.
static __attribute__((constructor)) void calibrate(void) {
    enum { ATTEMPTS = 20, TURNS = 20000 };
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t before_ns = now_ns();
        spin(TURNS);
        uint64_t ns = now_ns() - before_ns;
        if (ns < least_ns) least_ns = ns;
    }
    turns = (uint32_t)((uint64_t)SPIN_NS * TURNS / (least_ns ? least_ns : 1));
}

void *malloc(size_t size) {
    if (!next_known()) return NULL;
    spin(turns);
    return next.malloc(size);
}
void *calloc(size_t count, size_t size) { return next_known() ? next.calloc(count, size) : NULL; }
void *realloc(void *block, size_t size) { return next_known() ? next.realloc(block, size) : NULL; }
void free(void *block) {
    if (next_known()) next.free(block);
}
int posix_memalign(void **result, size_t alignment, size_t size) {
    return next_known() ? next.posix_memalign(result, alignment, size) : ENOMEM;
}
void *aligned_alloc(size_t alignment, size_t size) {
    return next_known() ? next.aligned_alloc(alignment, size) : NULL;
}
