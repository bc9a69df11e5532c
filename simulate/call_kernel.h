// SPDX-License-Identifier: Apache-2.0
// A malloc and a free of small blocks, as allocators with lists of free blocks by size do them, all of it in the first-level
// cache. Written out, so that the number of instructions is known. Beside it misses of a ring of lines cost what they cost
// among an allocator's calls: most of the wait is for work that the processor does anyway.
#ifndef HEAPTAPE_CALL_KERNEL_H
#define HEAPTAPE_CALL_KERNEL_H

#include <stdint.h>

#include "random_numbers.h"

enum { HT_KERNEL_CLASSES = 64, HT_KERNEL_CALLS = 256, HT_KERNEL_INSTRUCTIONS = 24 };

struct ht_call_kernel {
    uint64_t size[HT_KERNEL_CALLS];
    void *held[HT_KERNEL_CALLS], *free[HT_KERNEL_CLASSES];
    uint32_t count[HT_KERNEL_CLASSES];
    struct ht_kernel_block {
        void *next;
        uint64_t class, rest[2];
    } block[HT_KERNEL_CALLS + HT_KERNEL_CLASSES];
};

void ht_call_kernel_make(struct ht_call_kernel *kernel, struct ht_random *random);
// The calls from one to before the other, of HT_KERNEL_CALLS: each a free of a block and a malloc of its size.
void ht_call_kernel_run(struct ht_call_kernel *kernel, uint64_t from, uint64_t to);

#endif
