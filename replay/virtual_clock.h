// Trace time for the allocator: allocators that give memory back by the clock need the program's pauses, and
// this lets them pass without waiting.
#ifndef HEAPTAPE_VIRTUAL_CLOCK_H
#define HEAPTAPE_VIRTUAL_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

// From now on clock_gettime and gettimeofday, as the allocator sees them, show this moment plus *trace_ns.
void ht_virtual_clock_start(const _Atomic uint64_t *trace_ns);

#endif
