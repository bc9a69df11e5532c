// SPDX-License-Identifier: Apache-2.0
// A main heap with a break that is not malloc's alone. Usage: odd_breaks KIND MEGABYTES [LIST]
//   sbrk     the program moves the break itself between its blocks, and writes there
//   unpaged  the program moves the break by some bytes before malloc's first call
//   refused  a page behind the heap's end stops the break, and malloc goes on in mappings
//   early    the same, before malloc's first call
#include "live_blocks.h"

static void grow(size_t bytes) {
    static unsigned state = 4711;
    size_t from = blocks_used;
    for (size_t sum = 0, size; sum < bytes; sum += size + 8) {
        size = 20 + next_random(&state) % 600;
        keep(malloc(size), size);
    }
    for (size_t i = from; i < blocks_used; i++)
        if (i % 3) release(i);
}

static void refuse_break(size_t distance) {
    uintptr_t end = ((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095;
    void *wanted = (void *)(end + distance);  // NOLINT(performance-no-int-to-ptr): the break's own address
    if (mmap(wanted, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != wanted)
        _exit(95);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    blocks = map_pages(BLOCKS_MAX * sizeof *blocks);
    size_t bytes = strtoul(argv[2], NULL, 10) * 1000000;
    if (!strcmp(argv[1], "sbrk")) {
        for (int i = 0; i < 5; i++) {
            grow(bytes / 6);
            intptr_t own = 10000 + i * 4096 + i;
            memset(sbrk(own), 0xff, (size_t)own);
        }
        grow(bytes / 6);
    } else if (!strcmp(argv[1], "unpaged")) {
        memset(sbrk(1000), 0xff, 1000);
        grow(bytes);
    } else {
        if (strcmp(argv[1], "early")) free(malloc(10));
        refuse_break(strcmp(argv[1], "early") ? 65536 : 0);
        grow(bytes);
    }
    wait_with(argc > 3 ? argv[3] : NULL);
}
