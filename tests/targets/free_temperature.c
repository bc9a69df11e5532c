// SPDX-License-Identifier: Apache-2.0
// Frees many blocks that it has just used, that have long left the caches, or whose first page nobody may
// read: free_temperature warm|cold|guarded
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOCKS = 400000, BLOCK_BYTES = 200, STRIDE = 247213 };

// Allocators bear it as long as nothing of theirs lies in that page: before the block, or in a table.
static int free_guarded(void) {
    enum { TIMES = 2000, BYTES = 3 * 4096 };
    for (int i = 0; i < TIMES; i++) {
        char *block = aligned_alloc(4096, BYTES);
        if (!block || mprotect(block, 4096, PROT_NONE)) return 1;
        free(block);
        if (mprotect(block, 4096, PROT_READ | PROT_WRITE)) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (!strcmp(argv[1], "guarded")) return free_guarded();
    int warm = !strcmp(argv[1], "warm");
    static char *blocks[BLOCKS];
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        if (!blocks[i]) return 1;
        memset(blocks[i], (int)i, BLOCK_BYTES);
    }
    // In an order that no prefetcher follows: by the golden ratio of them, neighbours are freed thousands of frees apart.
    for (size_t i = 0, at = 0; i < BLOCKS; i++, at = (at + STRIDE) % BLOCKS) {
        if (warm) {
            for (size_t byte = 0; byte < BLOCK_BYTES; byte++)
                sum = sum * 31 + (unsigned char)blocks[at][byte];
        }
        free(blocks[at]);
    }
    printf("%u\n", sum);
    return 0;
}
