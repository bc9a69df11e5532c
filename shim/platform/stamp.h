// SPDX-License-Identifier: Apache-2.0
// The clock of the records: the bare cycle counter, shifted to its accuracy. No call, no fence.
#ifndef HEAPTAPE_STAMP_H
#define HEAPTAPE_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "raw_layout.h"

// clock.c
__attribute__((visibility("hidden"))) uint64_t clock_mono_ns(void);
__attribute__((visibility("hidden"))) struct ht_clock_pair clock_pair(void);
__attribute__((visibility("hidden"))) uint64_t clock_realtime_ns(void);
// Writes the header's next pair, unless another thread is about to: `taken` belongs to the header.
__attribute__((visibility("hidden"))) void clock_note_pair(struct ht_raw_header *header, _Atomic bool *taken);
__attribute__((visibility("hidden"))) uint64_t clock_process_cpu_ns(void);
__attribute__((visibility("hidden"))) uint64_t clock_thread_cpu_ns(void);

#if defined(__x86_64__)
static inline uint64_t clock_counter(void) {
    uint64_t low, high;  // it clears the upper halves
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return high << 32 | low;
}
enum { CLOCK_KIND = HT_CLOCK_TSC, CLOCK_SHIFT = 4 };
#define CLOCK_COUNTS_PER_S UINT64_C(2500000000)
#elif defined(__aarch64__)
static inline uint64_t clock_counter(void) {
    uint64_t counter;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
    return counter;
}
// The generic timer runs at 24 MHz to 1 GHz: no bits to spare.
enum { CLOCK_KIND = HT_CLOCK_CNTVCT, CLOCK_SHIFT = 0 };
#define CLOCK_COUNTS_PER_S UINT64_C(100000000)
#else
static inline uint64_t clock_counter(void) { return clock_mono_ns(); }
enum { CLOCK_KIND = HT_CLOCK_GETTIME, CLOCK_SHIFT = 2 };
#define CLOCK_COUNTS_PER_S UINT64_C(1000000000)
#endif

// For schedules only: near enough before the clock pairs give the true rate.
#define STAMPS_PER_S               (CLOCK_COUNTS_PER_S >> CLOCK_SHIFT)
#define SAMPLE_INTERVAL_STAMPS_MIN (STAMPS_PER_S / 1000)
#define SAMPLE_INTERVAL_STAMPS_MAX (STAMPS_PER_S / 10)
#define SAMPLE_GAP_STAMPS          (STAMPS_PER_S / 2000)
#define PEAK_GAP_STAMPS            (STAMPS_PER_S / 10000)

static inline uint64_t stamp_now(void) { return clock_counter() >> CLOCK_SHIFT; }

#endif
