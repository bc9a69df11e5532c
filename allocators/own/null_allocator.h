// SPDX-License-Identifier: Apache-2.0
// The allocator that does nothing, to measure the harness: see null_allocator.c.
#ifndef HEAPTAPE_NULL_ALLOCATOR_H
#define HEAPTAPE_NULL_ALLOCATOR_H

#include <stdbool.h>

// While yes, this thread's calls are the trace's and all get the same page; otherwise they are the C
// library's own and get real zeroed memory.
void ht_null_replaying(bool yes);

#endif
