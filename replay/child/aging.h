// SPDX-License-Identifier: Apache-2.0
// Makes a used heap before the trace begins.
#ifndef HEAPTAPE_CHILD_AGING_H
#define HEAPTAPE_CHILD_AGING_H

#include <stdbool.h>

#include "aging_plan.h"

// `blocks` has room for those that are freed, blocks less kept; it is not the heap's. False: an allocation failed.
bool ht_age_heap(const struct ht_aging *aging, void **blocks);

// For the null replayer: as much resident memory as the kept blocks have bytes, so that they are no part of what an allocator
// takes beyond it. False: there is none.
bool ht_age_without_heap(const struct ht_aging *aging);

#endif
