// A preloaded library that stands where a recorder stands and records nothing: the price of being there. With SPIN_NS
// its malloc is slower by a known time, a spin of about that: what bench/figures/aa.py must find slower.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "next_malloc.h"
#include "now.h"

#ifdef SPIN_NS
static uint32_t turns;  // of the spin

static void spin(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) __asm__ volatile("" : "+r"(i));
}

// How many turns take SPIN_NS, from the fastest of some attempts, as it is the spin's own time that counts.
static __attribute__((constructor)) void calibrate(void) {
    enum { ATTEMPTS = 20, TURNS = 20000 };
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t before_ns = ht_now_ns(CLOCK_MONOTONIC_RAW);
        spin(TURNS);
        uint64_t ns = ht_now_ns(CLOCK_MONOTONIC_RAW) - before_ns;
        if (ns < least_ns) least_ns = ns;
    }
    turns = (uint32_t)((uint64_t)SPIN_NS * TURNS / (least_ns ? least_ns : 1));
}
#endif

void *malloc(size_t size) {
    if (!next_known()) return NULL;
#ifdef SPIN_NS
    spin(turns);
#endif
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
