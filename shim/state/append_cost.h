// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_APPEND_COST_H
#define HEAPTAPE_APPEND_COST_H

#include "clock.h"

// Measures what an append costs in this process, in counts of the clock, and notes the least so far in the
// header. Takes some microseconds.
__attribute__((visibility("hidden"))) void append_cost_measure(struct ht_raw_header *header);

// Work other than appends took the counts of the clock since then.
static inline void upkeep_took(struct ht_raw_header *header, uint64_t before_counts) {
    __atomic_fetch_add(&header->upkeep_counts, clock_counter() - before_counts, __ATOMIC_RELAXED);
}

#endif
