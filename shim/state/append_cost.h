// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_APPEND_COST_H
#define HEAPTAPE_APPEND_COST_H

#include "raw_layout.h"

// Measures what an append costs in this process, in counts of the clock, and notes the least so far in the
// header. Takes some microseconds.
__attribute__((visibility("hidden"))) void append_cost_measure(struct ht_raw_header *header);

#endif
