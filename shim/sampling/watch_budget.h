// SPDX-License-Identifier: Apache-2.0
// Which blocks of 16 KiB and more have their residency measured. That takes a microsecond and more at a block's birth and at
// its end, where a recorded call takes some nanoseconds: so it may take one part in so many of the run.
#ifndef HEAPTAPE_WATCH_BUDGET_H
#define HEAPTAPE_WATCH_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attributes.h"
#include "sparse_stamps.h"

// Even to ask takes a stamp. A process with one thread, whose calls have none, asks for one large block in so many where
// the last was not measured; for more, or a larger one, where the coarse clock has ticked.
struct watch_skips {
    uint32_t left;       // large blocks that pass unasked
    size_t below_bytes;  // if they are smaller
};
extern HIDDEN struct watch_skips watch_skips;

// Is it to be asked whether this large block is measured? If not, it counts as passed.
static inline bool watch_is_asked(size_t bytes) {
    if (!watch_skips.left || bytes >= watch_skips.below_bytes || !is_within_tick()) return true;
    watch_skips.left--;
    return false;
}

// Is this block, which is allocated now, to be measured? Larger ones, and those of a size that was not measured for long,
// come first.
HIDDEN bool watch_is_affordable(size_t bytes, uint64_t stamp);
// It is not, nor are the next of its size.
HIDDEN void watch_pass(size_t bytes);
// Measuring it took the counts of the clock since then.
HIDDEN void watch_pay(size_t bytes, uint64_t before_counts);
HIDDEN void watch_after_fork(void);

#endif
