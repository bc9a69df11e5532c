// SPDX-License-Identifier: Apache-2.0
// A service that has started and is idle: RSS then is what its owner sees. Each worker loads much at its start, keeps a little of
// it and frees the rest, then answers a small request every 20 ms. It ends as a killed service does, with all workers in their loop.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 8, LOADED = 3000, KEPT = 600, PER_REQUEST = 100, IDLE_S = 4, BETWEEN_NS = 20000000 };

static unsigned drawn(unsigned *state) {
    *state = *state * 1103515245U + 12345U;
    return *state >> 8;
}

// As services allocate: mostly strings and nodes, some buffers.
static size_t drawn_size(unsigned *state) {
    unsigned percent = drawn(state) % 100;
    if (percent < 70) return 16 + drawn(state) % 240;
    if (percent < 90) return 256 + drawn(state) % 1792;
    if (percent < 98) return 2048 + drawn(state) % 14336;
    return 16384 + drawn(state) % 49152;
}

static void allocate(void **blocks, int count, unsigned *state) {
    for (int i = 0; i < count; i++) {
        size_t size = drawn_size(state);
        blocks[i] = malloc(size);
        if (!blocks[i]) exit(1);
        memset(blocks[i], 1, size);
    }
}

static void release(void **blocks, int count) {
    for (int i = 0; i < count; i++) free(blocks[i]);
}

static void *work(void *number) {
    unsigned state = *(unsigned *)number * 7919 + 1;
    void *blocks[LOADED], *kept[KEPT];
    allocate(blocks, LOADED, &state);
    allocate(kept, KEPT, &state);
    release(blocks, LOADED);
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = BETWEEN_NS}, NULL);
        allocate(blocks, PER_REQUEST, &state);
        release(blocks, PER_REQUEST);
    }
    return NULL;
}

int main(void) {
    static unsigned numbers[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_t thread;
        numbers[i] = i;
        if (pthread_create(&thread, NULL, work, &numbers[i])) exit(1);
    }
    nanosleep(&(struct timespec){.tv_sec = IDLE_S}, NULL);
    _exit(0);
}
