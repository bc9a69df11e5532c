// SPDX-License-Identifier: Apache-2.0
// A heap of a known shape, which then stands still. Usage: heap_shapes SHAPE MEGABYTES [LIST]
//   pin      small blocks, nine tenths of them freed in between
//   leak     small blocks, none freed
//   mapped   50 kB to 3 MB by malloc, calloc (touched in part), realloc and memalign; a third freed; pages that look like headers
//   decoys   mapped, and pages that nothing but malloc's own count tells from headers
//   aligned  alignments of 16 bytes to 4 MiB by four functions; a third freed
#include "live_blocks.h"

static unsigned state = 12345;

static void pin(size_t bytes) {
    for (size_t sum = 0, size; sum < bytes; sum += size + 8) {
        size = blocks_used % 10 ? 100 + next_random(&state) % 400 : 200;
        keep(malloc(size), size);
    }
    for (size_t i = 0; i < blocks_used; i++)
        if (i % 10) release(i);
}

static void leak(size_t bytes) {
    for (size_t sum = 0, size; sum < bytes; sum += size + 8) {
        size = 16 + next_random(&state) % 500;
        keep(malloc(size), size);
    }
}

// Page starts as malloc writes them, in a mapping of the program's own: the size before, the size with its bit for "mapped".
static void decoy(size_t before, size_t size_and_bits) {
    uint64_t *pages = map_pages(1 << 20);
    for (size_t at = 0; at < (1 << 20) / sizeof *pages; at += 512)
        pages[at] = before, pages[at + 1] = size_and_bits;
}

static void mapped(size_t bytes, int hard) {
    for (size_t sum = 0, size; sum < bytes; sum += size) {
        size = 50000 + next_random(&state) % 3000000;
        switch (next_random(&state) % 4) {
        case 0: keep(malloc(size), size); break;
        case 1: blocks[keep(calloc(1, size), size / 3)].bytes = size; break;
        case 2: keep(memalign(1 << 21, size), size); break;
        default: keep(realloc(memset(malloc(size / 2), 1, size / 2), size), size);
        }
    }
    for (size_t i = 0; i < blocks_used; i += 3) release(i);
    for (int i = 0; i < 20; i++) decoy(0, i % 2 ? 0x2002 : 0x12345);
    for (int i = 0; hard && i < 4; i++) decoy(i % 2 ? 0x10 : 0, i % 2 ? 0x20ff2 : 0x21002);
}

static void aligned(size_t bytes) {
    for (size_t sum = 0, size; sum < bytes; sum += size) {
        size_t alignment = (size_t)16 << next_random(&state) % 19;
        size =
            next_random(&state) % 50 ? 1 + next_random(&state) % 5000 : 100000 + next_random(&state) % 500000;
        void *block = NULL;
        switch (next_random(&state) % 4) {
        case 0: block = memalign(alignment, size); break;
        case 1:
            if (posix_memalign(&block, alignment, size)) _exit(96);
            break;
        case 2: block = aligned_alloc(alignment, size); break;
        default: block = realloc(memalign(alignment, size / 2), size);
        }
        keep(block, size);
    }
    for (size_t i = 0; i < blocks_used; i += 3) release(i);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    blocks = map_pages(BLOCKS_MAX * sizeof *blocks);
    size_t bytes = strtoul(argv[2], NULL, 10) * 1000000;
    if (!strcmp(argv[1], "pin")) pin(bytes);
    else if (!strcmp(argv[1], "leak")) leak(bytes);
    else if (!strcmp(argv[1], "aligned")) aligned(bytes);
    else if (!strcmp(argv[1], "mapped") || !strcmp(argv[1], "decoys")) mapped(bytes, argv[1][0] == 'd');
    else return 2;
    wait_with(argc > 3 ? argv[3] : NULL);
}
