// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <stdatomic.h>
#include <time.h>

#include "sys.h"

static uint64_t read_clock_ns(clockid_t clock) {
    struct timespec now;
    if (raw_syscall(SYS_clock_gettime, clock, (long)&now, 0, 0, 0, 0)) return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_mono_ns(void) { return read_clock_ns(CLOCK_MONOTONIC); }
uint64_t clock_realtime_ns(void) { return read_clock_ns(CLOCK_REALTIME); }
struct ht_clock_pair clock_pair(void) {
    struct ht_clock_pair best = {0};
    uint64_t best_width = UINT64_MAX;
    // A preemption between the two readings would bend the counter's rate: the tightest of three is kept.
    for (unsigned i = 0; i < 3; i++) {
        uint64_t before = stamp_now(), mono_ns = clock_mono_ns(), width = stamp_now() - before;
        if (width >= best_width) continue;
        best_width = width;
        best = (struct ht_clock_pair){.stamp = before + width / 2, .mono_ns = mono_ns};
    }
    return best;
}

// Two pairs, written alternately: a process killed in the middle of a store leaves the other whole. If two threads did this at
// once, one would write over the pair that the other has just made the newer one.
void clock_note_pair(struct ht_raw_header *header, _Atomic bool *taken) {
    if (atomic_exchange(taken, true)) return;
    struct ht_clock_pair *pair = header->last_pair, now = clock_pair();
    unsigned older = pair[0].stamp > pair[1].stamp;
    pair[older].mono_ns = now.mono_ns;
    atomic_thread_fence(memory_order_release);
    pair[older].stamp = now.stamp;
    atomic_store(taken, false);
}

uint64_t clock_process_cpu_ns(void) { return read_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }
uint64_t clock_thread_cpu_ns(void) { return read_clock_ns(CLOCK_THREAD_CPUTIME_ID); }
