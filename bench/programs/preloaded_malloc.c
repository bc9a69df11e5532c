// SPDX-License-Identifier: Apache-2.0
// A preloaded library that stands where a recorder stands and records nothing: the price of being there. With SPIN_NS
// its malloc is slower by a known time, a spin of about that: what bench/figures/aa.py must find slower.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "next_malloc.h"

#ifdef SPIN_NS
static uint32_t turns;  // of the spin

static void spin(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) __asm__ volatile("" : "+r"(i));
}

// By the system call: the replay that this library is preloaded into has a clock of its own, which stands still here.
static uint64_t real_now_ns(void) {
    struct timespec now;
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, &now)) _exit(99);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// How many turns take SPIN_NS, from the fastest of some attempts, as it is the spin's own time that counts.
static __attribute__((constructor)) void calibrate(void) {
    enum { ATTEMPTS = 20, TURNS = 20000 };
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t before_ns = real_now_ns();
        spin(TURNS);
        uint64_t ns = real_now_ns() - before_ns;
        if (ns < least_ns) least_ns = ns;
    }
    if (!least_ns) _exit(99);
    turns = (uint32_t)((uint64_t)SPIN_NS * TURNS / least_ns);
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
