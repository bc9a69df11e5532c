// SPDX-License-Identifier: Apache-2.0
// The coarse clock, CLOCK_MONOTONIC_COARSE: what the kernel writes at each tick into a page that every process can read.
#ifndef HEAPTAPE_COARSE_CLOCK_H
#define HEAPTAPE_COARSE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "attributes.h"

struct coarse_clock {
    // The kernel's own function, not libc's, which the program may have replaced. NULL: there is none, or it makes a
    // system call.
    int (*read)(clockid_t, struct timespec *);
    // Where the kernel writes the seconds, and behind them the nanoseconds. They may be read while they are written.
    // NULL: not found, the function has to be called.
    const volatile uint64_t *words;
    uint64_t tick_ns;
};

HIDDEN struct coarse_clock coarse_clock_find(void);

// Do the words show what the function says? No more, where the process has entered a time namespace.
HIDDEN bool coarse_clock_words_hold(const struct coarse_clock *clock);

#endif
