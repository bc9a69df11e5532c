// SPDX-License-Identifier: Apache-2.0
#include "log_clock.h"

#include "now.h"

#if defined(__x86_64__)
static uint64_t counter(void) { return __builtin_ia32_rdtsc(); }
enum { COUNTER_KIND = HT_CLOCK_TSC };
#elif defined(__aarch64__)
static uint64_t counter(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}
enum { COUNTER_KIND = HT_CLOCK_CNTVCT };
#else
static uint64_t counter(void) { return ht_now_ns(CLOCK_MONOTONIC); }
enum { COUNTER_KIND = HT_CLOCK_GETTIME };
#endif

bool log_clock_is_here(const struct ht_raw_log *log) {
    return log->header.clock_kind == COUNTER_KIND || log->header.clock_kind == HT_CLOCK_GETTIME;
}

uint64_t log_clock_now(const struct ht_raw_log *log) {
    uint64_t now = log->header.clock_kind == HT_CLOCK_GETTIME ? ht_now_ns(CLOCK_MONOTONIC) : counter();
    return now >> log->header.clock_shift;
}

// A preemption between two readings would bend the rate: the tightest of a few is kept.
struct ht_clock_pair log_clock_pair(const struct ht_raw_log *log) {
    struct ht_clock_pair best = {0};
    uint64_t best_width = UINT64_MAX;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t before = log_clock_now(log), ns = ht_now_ns(CLOCK_MONOTONIC),
                 width = log_clock_now(log) - before;
        if (width >= best_width) continue;
        best_width = width;
        best = (struct ht_clock_pair){.stamp = before + width / 2, .mono_ns = ns};
    }
    return best;
}
