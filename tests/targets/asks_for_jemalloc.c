// SPDX-License-Identifier: Apache-2.0
// Asks by a weak symbol whether jemalloc is there, as programs do that can go without it. Prints what it
// found. Usage: asks_for_jemalloc COUNTS
#include <stdbool.h>

#include "target_support.h"

enum { SIZE = 7700 };

__attribute__((weak)) void *mallocx(size_t size, int flags);
__attribute__((weak)) void *rallocx(void *block, size_t size, int flags);
__attribute__((weak)) size_t xallocx(void *block, size_t size, size_t extra, int flags);
__attribute__((weak)) void dallocx(void *block, int flags);

enum { ALIGN_64 = 6, ZERO = 0x40 };

static void use_it(void) {
    unsigned char *block = mallocx(SIZE, ALIGN_64 | ZERO);
    if (!block || (uintptr_t)block % 64) target_fail("mallocx");
    tally_count(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        if (block[i]) target_fail("a block is not zero");
    block[0] = 42;
    if (!(block = rallocx(block, 100000, 0)) || block[0] != 42) target_fail("rallocx");
    xallocx(block, 100, 0, 0);
    dallocx(block, 0);
}

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    bool found = mallocx && rallocx && xallocx && dallocx;
    if (found) use_it();
    tally_churn(SIZE, 10);
    puts(found ? "jemalloc" : "no jemalloc");
    return 0;
}
