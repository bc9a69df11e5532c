// SPDX-License-Identifier: Apache-2.0
#include "far_table.h"

#include <stdint.h>
#include <sys/mman.h>

// Between the places of allocators that ask for one of their own and the program's.
#define FAR_ADDRESS UINT64_C(0x480000000000)

static void *map_at(uint64_t address, size_t bytes, int flags) {
    void *table = mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    return table == MAP_FAILED ? NULL : table;
}

void *ht_far_table(size_t bytes) {
    static uint64_t next = FAR_ADDRESS;
    void *table = map_at(next, bytes, MAP_FIXED_NOREPLACE);
    next += (bytes + (1 << 21) - 1) >> 21 << 21;
    return table ? table : map_at(0, bytes, 0);
}
