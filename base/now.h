// SPDX-License-Identifier: Apache-2.0
// What time it is.
#ifndef HEAPTAPE_NOW_H
#define HEAPTAPE_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ht_now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Seconds of the monotonic clock.
static inline double ht_now_s(void) { return (double)ht_now_ns(CLOCK_MONOTONIC) / 1e9; }

#endif
