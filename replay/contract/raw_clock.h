// Clocks for our own use in the measured child. The C library's clock_gettime is ours there and shows trace
// time to the allocator, so these go past it.
#ifndef HEAPTAPE_RAW_CLOCK_H
#define HEAPTAPE_RAW_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t ht_raw_clock_ns(clockid_t id) {
    struct timespec now;
    syscall(SYS_clock_gettime, id, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

// CPU time of this thread: does not run while another process has the core.
static inline uint64_t ht_thread_cpu_ns(void) { return ht_raw_clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// The cycle counter, fenced so that neither side of it leaks into the other.
static inline uint64_t ht_ticks(void) {
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
    return ticks;
#else
    return ht_raw_clock_ns(CLOCK_MONOTONIC);
#endif
}

static inline void ht_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
