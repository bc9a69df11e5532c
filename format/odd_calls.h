// SPDX-License-Identifier: Apache-2.0
// Aligned calls that the standards forbid or leave to the allocator: one serves them, another returns NULL.
#ifndef HEAPTAPE_ODD_CALLS_H
#define HEAPTAPE_ODD_CALLS_H

#include <stdint.h>

#include "ops.h"

enum ht_oddity {
    HT_NOT_ODD,
    HT_ODD_SIZE,      // of aligned_alloc: no multiple of the alignment
    HT_ODD_ALIGNMENT  // no power of two; of posix_memalign: no multiple of a pointer's size either
};

static inline enum ht_oddity ht_oddity_of(unsigned function, uint64_t alignment, uint64_t size) {
    bool aligns = function == HT_POSIX_MEMALIGN || function == HT_ALIGNED_ALLOC || function == HT_MEMALIGN;
    if (!aligns) return HT_NOT_ODD;
    if (!alignment || alignment & (alignment - 1)) return HT_ODD_ALIGNMENT;
    if (function == HT_POSIX_MEMALIGN && alignment % sizeof(void *)) return HT_ODD_ALIGNMENT;
    return function == HT_ALIGNED_ALLOC && size % alignment ? HT_ODD_SIZE : HT_NOT_ODD;
}

#endif
