#ifndef HEAPTAPE_PROBE_H
#define HEAPTAPE_PROBE_H

#include "raw_layout.h"

// Measures what an append costs in this process, in counts of the clock, and notes the least so far in the
// header. Takes some microseconds.
__attribute__((visibility("hidden"))) void probe_cost(struct ht_raw_header *header);

#endif
