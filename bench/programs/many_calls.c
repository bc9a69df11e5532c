// SPDX-License-Identifier: Apache-2.0
// Makes a number of calls with a number of blocks live, of sizes from 16 to 215 bytes: many_calls CALLS BLOCKS.
// The first BLOCKS calls allocate; each further pair frees a block, at random, and allocates another.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

__attribute__((noinline)) static char *make_block(void) {
    char *block = malloc(16 + (next_random() >> 40) % 200);
    if (!block) exit(1);
    *block = 1;
    return block;
}

int main(int count, char **arguments) {
    uint64_t calls = count == 3 ? strtoull(arguments[1], NULL, 10) : 0,
             blocks = count == 3 ? strtoull(arguments[2], NULL, 10) : 0;
    if (!blocks || calls < blocks) {
        fprintf(stderr, "Usage: many_calls CALLS BLOCKS\n");
        return 2;
    }
    char **block = malloc(blocks * sizeof *block);
    if (!block) return 1;
    for (uint64_t i = 0; i < blocks; i++) block[i] = make_block();
    for (uint64_t i = blocks; i + 1 < calls; i += 2) {
        char **place = &block[next_random() % blocks];
        free(*place);
        *place = make_block();
    }
    return 0;
}
