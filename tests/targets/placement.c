// SPDX-License-Identifier: Apache-2.0
// placement list|stride|beyond [ROUNDS]: programs whose cost depends on where the allocator puts their blocks.
// list: walks a list whose nodes were allocated after many blocks of their size were freed in random order: what
// it costs is decided by the order in which the allocator gives freed blocks out again.
// stride: reads the first words of many blocks of 60 KiB in turn. Where those are 64 KiB apart, their pages fall into one
// set of the TLB, and their first lines into one set of the caches.
// beyond: reads behind the end of each block, as string functions do, and frees NULL.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 40000, NODE_BYTES = 48, BLOCKS = 64, BLOCK_BYTES = 60 << 10 };

struct node {
    struct node *next;
    uint64_t value;
};

static uint64_t random_state = 88172645463325252;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static uint64_t walk_list(int rounds) {
    static void *block[2 * NODES];
    struct node *first = NULL;
    uint64_t sum = 0;
    for (int i = 0; i < 2 * NODES; i++) block[i] = calloc(1, NODE_BYTES);
    for (int i = 2 * NODES - 1; i > 0; i--) {
        int other = (int)(next_random() % (uint64_t)(i + 1));
        void *swapped = block[i];
        block[i] = block[other];
        block[other] = swapped;
    }
    for (int i = 0; i < NODES; i++) free(block[i]);
    for (int i = 0; i < NODES; i++) {
        struct node *node = malloc(NODE_BYTES);
        *node = (struct node){first, (uint64_t)i};
        first = node;
    }
    for (int round = 0; round < rounds; round++)
        for (const struct node *node = first; node; node = node->next) sum += node->value;
    return sum;
}

static uint64_t read_strided(int rounds) {
    static char *block[BLOCKS];
    uint64_t sum = 0;
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(BLOCK_BYTES);
        memset(block[i], i, 64);
    }
    for (int round = 0; round < rounds * 200; round++)
        for (int i = 0; i < BLOCKS; i++) sum += (uint64_t)*(volatile char *)(block[i] + i * 64 % 4096);
    return sum;
}

static uint64_t read_beyond(int rounds) {
    static char *block[NODES];
    uint64_t sum = 0;
    for (int i = 0; i < NODES; i++) block[i] = malloc(24);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < NODES; i++) {
            // The address in another variable: the compiler would know that it lies beyond.
            uintptr_t end = (uintptr_t)block[i] + 24;
            sum += (uint64_t)*(volatile char *)end;
            free(NULL);
            __asm__ volatile("" : : : "memory");
        }
    return sum;
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    static const struct {
        const char *name;
        uint64_t (*run)(int rounds);
    } modes[] = {{"list", walk_list}, {"stride", read_strided}, {"beyond", read_beyond}};
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name)) continue;
        printf("%llu\n", (unsigned long long)modes[i].run(rounds));
        return 0;
    }
    return 2;
}
