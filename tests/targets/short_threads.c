// SPDX-License-Identifier: Apache-2.0
// Threads that each make some thousand calls and end: four at once, again and again. Nothing else is done meanwhile.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 6, THREADS = 4, BLOCKS = 20000 };

static void *blocks[THREADS][BLOCKS];

static void *fill(void *row) {
    void **block = row;
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t bytes = 32 + i % 300;
        block[i] = malloc(bytes);
        if (!block[i]) abort();
        memset(block[i], 1, bytes);
    }
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < THREADS; i++)
            if (pthread_create(&thread[i], NULL, fill, blocks[i])) return 2;
        for (unsigned i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
        for (unsigned i = 0; i < THREADS; i++)
            for (unsigned j = 0; j < BLOCKS; j++) free(blocks[i][j]);
    }
    return 0;
}
