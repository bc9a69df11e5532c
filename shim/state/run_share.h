// SPDX-License-Identifier: Apache-2.0
// Work of the recorder's that may take one part in so many of the run, and what was saved up until then. Threads that pay at once
// may forget what one of them paid.
#ifndef HEAPTAPE_RUN_SHARE_H
#define HEAPTAPE_RUN_SHARE_H

#include <stdatomic.h>

#include "stamp.h"

struct run_share {
    uint64_t parts;                // one in so many
    uint64_t saved_stamps_max;     // of the run
    _Atomic uint64_t paid_stamps;  // the run until then is what the work has taken, times `parts`
};

// Where the run until that stamp is paid: later than it where work is owed.
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
