// SPDX-License-Identifier: Apache-2.0
// A library that is opened and closed: two of it differ in where their allocations are.
#include <stdlib.h>

static __attribute__((noinline)) void *allocate(size_t bytes) {
    void *block = malloc(bytes);
    __asm__ volatile("");
    return block;
}

void *work(size_t bytes);
void *work(size_t bytes) {
#ifdef OTHER
    free(calloc(bytes, 3));
    __asm__ volatile("nop; nop; nop");
#endif
    void *block = allocate(bytes + 1);
    free(block);
    return allocate(bytes);
}
