// SPDX-License-Identifier: Apache-2.0
// The clocks and futexes of the kernel, past the C library. Its clock_gettime is ours in the measured child and shows trace
// time to the allocator.
#ifndef HEAPTAPE_RAW_CALLS_H
#define HEAPTAPE_RAW_CALLS_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t ht_raw_clock_ns(clockid_t id) {
    struct timespec now;
    syscall(SYS_clock_gettime, id, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

// CPU time of this thread: does not run while another process has the core.
static inline uint64_t ht_thread_cpu_ns(void) { return ht_raw_clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// That of any thread of the process, as clock_getcpuclockid makes the clocks of processes; 0 if it has ended.
static inline uint64_t ht_cpu_ns_of_thread(pid_t tid) {
    enum { SCHEDULED = 2, PER_THREAD = 4, KIND_BITS = 3 };
    struct timespec used = {0};
    syscall(SYS_clock_gettime, (clockid_t)(~(unsigned)tid << KIND_BITS | PER_THREAD | SCHEDULED), &used);
    return (uint64_t)used.tv_sec * 1000000000ull + (uint64_t)used.tv_nsec;
}

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

// Sleeping on a 32-bit word and waking its sleepers: in this process, or (shared) in others, too.

static inline void ht_futex_wait(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
// Waits for at most so long, by the real clock.
static inline void ht_futex_wait_for(_Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &limit, NULL, 0);
}
static inline void ht_futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
static inline void ht_futex_wait_shared(_Atomic uint32_t *word, uint32_t value, const struct timespec *most) {
    syscall(SYS_futex, word, FUTEX_WAIT, value, most, NULL, 0);
}
static inline void ht_futex_wake_shared(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
