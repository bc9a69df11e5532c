// SPDX-License-Identifier: Apache-2.0
// The clock of the records: the bare cycle counter, shifted to its accuracy. No call, no fence. And the kernel's clocks, by
// system call: the program may have replaced libc's.
#ifndef HEAPTAPE_CLOCK_H
#define HEAPTAPE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "attributes.h"
#include "raw_layout.h"

HIDDEN uint64_t clock_mono_ns(void);
HIDDEN struct ht_clock_pair clock_pair(void);
HIDDEN uint64_t clock_realtime_ns(void);
// Writes the header's next pair, unless another thread is about to: `taken` belongs to the header.
HIDDEN void clock_note_pair(struct ht_raw_header *header, _Atomic bool *taken);
HIDDEN uint64_t clock_process_cpu_ns(void);
HIDDEN uint64_t clock_thread_cpu_ns(void);

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

// Counts CPU time: a thread that was preempted has not cost more.
static inline int64_t cpu_stamps_since(uint64_t started_ns) {
    return (int64_t)((clock_thread_cpu_ns() - started_ns) * (STAMPS_PER_S / 1000000) / 1000);
}

// Work of the recorder's that may take one part in so many of the run, and what was saved up until then. Threads that pay at once
// may forget what one of them paid.
struct run_share {
    uint64_t parts;                // one in so many
    uint64_t saved_stamps_max;     // of the run
    _Atomic uint64_t paid_stamps;  // the run until then is what the work has taken, times `parts`
};

// The stamp up to which the run is paid: a later one than this if work is owed.
static inline uint64_t share_paid_until(const struct run_share *share, uint64_t stamp) {
    uint64_t paid = atomic_load_explicit(&share->paid_stamps, memory_order_relaxed);
    return paid + share->saved_stamps_max > stamp ? paid : stamp - share->saved_stamps_max;
}

// The work has taken the counts of the clock since then. A thread that lost the processor has not taken more than `stamps_max`.
static inline void share_pay(struct run_share *share, uint64_t before_counts, uint64_t stamps_max) {
    uint64_t now = clock_counter(), stamps = (now - before_counts) >> CLOCK_SHIFT;
    if (stamps > stamps_max) stamps = stamps_max;
    atomic_store_explicit(&share->paid_stamps,
                          share_paid_until(share, now >> CLOCK_SHIFT) + stamps * share->parts,
                          memory_order_relaxed);
}

#endif
