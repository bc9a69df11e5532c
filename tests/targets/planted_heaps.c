// SPDX-License-Identifier: Apache-2.0
// Heaps that waste memory in one known way, each at the program's end. Prints what is true of it: the size of the blocks that
// hold the waste, and the bytes that they hold.
// Usage: planted_heaps pins|arenas|promotion|leak|rounding|caches|burst|realloc|aligned|untouched|headers|slack
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target_support.h"

enum { THREADS = 8, CACHING_THREADS = 32 };

static void *filled(size_t size) {
    void *block = malloc(size);
    if (!block) target_fail("malloc failed");
    return memset(block, 1, size);
}

static void print_truth(size_t size, size_t held_bytes) {
    printf("{\"size\": %zu, \"held_bytes\": %zu}\n", size, held_bytes);
}

// Blocks that are needed beside the ones that waste, dense.
static void fill_densely(void) {
    for (int i = 0; i < 3000; i++) filled(1000);
}

// Of many blocks a few stay, each on a page of its own.
static void keep_one_in(size_t size, int count, int one_in) {
    void **blocks = filled((size_t)count * sizeof *blocks);
    size_t kept = 0;
    for (int i = 0; i < count; i++) blocks[i] = filled(size);
    for (int i = 0; i < count; i++) {
        if (i % one_in == 0) kept++;
        else free(blocks[i]);
    }
    free(blocks);
    print_truth(size, (size_t)count * size - kept * size);
}

static void pins(void) {
    fill_densely();
    keep_one_in(200, 100000, 16);
}

static void promotion(void) {
    fill_densely();
    keep_one_in(48, 1000000, 50);
}

static void leak(void) {
    for (int i = 0; i < 200000; i++) {
        free(filled(64));
        filled(120);
    }
    print_truth(120, 0);
}

static void rounding(void) {
    for (int i = 0; i < 1500; i++) filled(16385);
    print_truth(16385, 1500 * 4095);
}

// Dense: no block could be placed between them.
static void headers(void) {
    enum { COUNT = 200000 };
    for (int i = 0; i < COUNT; i++) filled(24);
    print_truth(24, COUNT * 24);
}

// All is written to; what allocators add, up to whole pages, is no part of what was requested.
static void slack(void) {
    enum { COUNT = 200, BYTES = 82000 };
    for (int i = 0; i < COUNT; i++) filled(BYTES);
    print_truth(BYTES, COUNT * BYTES);
}

static void burst(void) {
    enum { COUNT = 30000 };
    static void *blocks[COUNT];
    fill_densely();
    for (int i = 0; i < COUNT; i++) blocks[i] = filled(1000);
    filled(1000);  // above them
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    print_truth(1000, COUNT * 1000);
}

static void aligned(void) {
    for (int i = 0; i < 4000; i++) {
        void *block;
        if (posix_memalign(&block, 4096, 100)) target_fail("posix_memalign failed");
        memset(block, 1, 100);
    }
    print_truth(100, 4000 * 3996);
}

static void untouched(void) {
    fill_densely();
    for (int i = 0; i < 150; i++) {
        if (!calloc(1, 200000)) target_fail("calloc failed");
    }
    print_truth(200000, 150 * 200000);
}

// A vector that doubles: what it leaves is never large enough for it again.
static void grow(void) {
    enum { LARGEST = 16 << 20 };
    void *vector = NULL;
    for (size_t size = 4096; size <= LARGEST; size *= 2) {
        vector = realloc(vector, size);
        if (!vector) target_fail("realloc failed");
        memset(vector, 1, size);
    }
    print_truth(LARGEST, LARGEST - 4096);
}

static pthread_barrier_t turn;

// Each has an arena, and leaves a block at its top.
static void *burst_by_turns(void *number) {
    enum { COUNT = 4000 };
    static void *blocks[COUNT];
    filled(100);
    for (int i = 0; i < THREADS; i++) {
        pthread_barrier_wait(&turn);
        if (i != (int)(intptr_t)number) continue;
        for (int k = 0; k < COUNT; k++) blocks[k] = filled(1000);
        filled(1000);
        for (int k = 0; k < COUNT; k++) free(blocks[k]);
    }
    pthread_barrier_wait(&turn);
    return NULL;
}

// Freed blocks of every size wait for their threads, while the next thread needs as many.
static void *fill_cache(void *number) {
    enum { SIZE_MAX_CACHED = 1024, OF_EACH = 7 };
    static void *blocks[SIZE_MAX_CACHED / 16][OF_EACH];
    for (int i = 0; i < CACHING_THREADS; i++) {
        pthread_barrier_wait(&turn);
        if (i != (int)(intptr_t)number) continue;
        usleep(2000);  // a replay keeps threads apart by a millisecond
        for (int size = 16; size <= SIZE_MAX_CACHED; size += 16)
            for (int k = 0; k < OF_EACH; k++) blocks[size / 16 - 1][k] = filled((size_t)size);
        for (int size = 16; size <= SIZE_MAX_CACHED; size += 16)
            for (int k = 0; k < OF_EACH; k++) free(blocks[size / 16 - 1][k]);
    }
    pthread_barrier_wait(&turn);
    return NULL;
}

static void on_threads(void *(*work)(void *), int count, size_t size, size_t held_bytes) {
    pthread_t threads[CACHING_THREADS];
    pthread_barrier_init(&turn, NULL, (unsigned)count);
    for (intptr_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) target_fail("no thread");
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    print_truth(size, held_bytes);
}

int main(int argc, char **argv) {
    const char *what = argc == 2 ? argv[1] : "";
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(what, "pins")) pins();
    else if (!strcmp(what, "arenas")) on_threads(burst_by_turns, THREADS, 1000, (THREADS - 1) * 4000 * 1000);
    else if (!strcmp(what, "promotion")) promotion();
    else if (!strcmp(what, "leak")) leak();
    else if (!strcmp(what, "rounding")) rounding();
    else if (!strcmp(what, "caches"))
        on_threads(fill_cache, CACHING_THREADS, 1024, CACHING_THREADS * 7 * 64 * 65 * 8);
    else if (!strcmp(what, "burst")) burst();
    else if (!strcmp(what, "realloc")) grow();
    else if (!strcmp(what, "aligned")) aligned();
    else if (!strcmp(what, "untouched")) untouched();
    else if (!strcmp(what, "headers")) headers();
    else if (!strcmp(what, "slack")) slack();
    else target_fail("usage: planted_heaps KIND");
    return 0;
}
