// SPDX-License-Identifier: Apache-2.0
// The allocator that a replay-NAME is linked with. CMake writes the definition for each.
#ifndef HEAPTAPE_THIS_ALLOCATOR_H
#define HEAPTAPE_THIS_ALLOCATOR_H

#include "allocator.h"

extern const struct ht_allocator *const ht_this_allocator;

#endif
