// SPDX-License-Identifier: Apache-2.0
// More threads than processors: each of them loses the processor at any moment, and the others go on.
#include <pthread.h>
#include <time.h>

#include "target_modes.h"

enum { THREADS = 8, SECONDS = 1, KEPT = 20000, KEPT_BYTES = 1000 };

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Megabytes of the heap, which come and go. There is no other memory.
static void fill_heap(unsigned *seed) {
    enum { BLOCKS_MAX = 400, BLOCK_BYTES_MIN = 16 << 10 };
    char *block[BLOCKS_MAX];
    int blocks = 50 + rand_r(seed) % (BLOCKS_MAX - 50);
    for (int i = 0; i < blocks; i++) {
        size_t bytes = BLOCK_BYTES_MIN + (size_t)rand_r(seed) % (4 * BLOCK_BYTES_MIN);
        block[i] = malloc(bytes);
        memset(block[i], 1, bytes);
    }
    for (int i = 0; i < blocks; i++) free(block[i]);
}

// The same of the program's own memory, with some calls of malloc. The heap stays as it is.
static void fill_maps(unsigned *seed) {
    size_t bytes = (size_t)(1 + rand_r(seed) % 4) << 20;
    char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) target_fail("mmap");
    memset(mapped, 1, bytes);
    munmap(mapped, bytes);
    for (int i = 0; i < 20; i++) {
        char *volatile block = malloc(2000);
        *block = 1;
        free(block);
    }
}

// The first thread has memory of its own that the kernel is at work on all the time: filled before the call returns, and moved
// to and fro. The others hardly do anything but call malloc, which leads to samples.
static void move_or_call(unsigned *seed) {
    enum { BYTES = 16 << 20, MORE_BYTES = 17 << 20, TIMES = 200, PROTECTION = PROT_READ | PROT_WRITE };
    if (*seed == 1) {
        char *at = mmap(NULL, BYTES, PROTECTION, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        for (int i = 0; i < TIMES && at != MAP_FAILED; i++) {
            at = mremap(at, BYTES, MORE_BYTES, MREMAP_MAYMOVE);
            if (at != MAP_FAILED) at = mremap(at, MORE_BYTES, BYTES, MREMAP_MAYMOVE);
        }
        if (at == MAP_FAILED || munmap(at, BYTES)) target_fail("mmap or mremap");
        return;
    }
    for (int i = 0; i < 20; i++) {
        char *volatile block = malloc(2000);
        *block = 1;
        free(block);
    }
    usleep(100);
}

static void (*fill)(unsigned *seed);

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (double begin = seconds_now(); seconds_now() < begin + SECONDS;) fill(&seed);
    return NULL;
}

static int run_threads(void) {
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)(i + 1))) target_fail("pthread_create");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    return 0;
}

static int heap(char *argument) {
    (void)argument;
    fill = fill_heap;
    return run_threads();
}

static int keep_and_run(void (*then)(unsigned *seed)) {
    for (int i = 0; i < KEPT; i++) {
        char *volatile kept = malloc(KEPT_BYTES);
        memset(kept, 1, KEPT_BYTES);
    }
    fill = then;
    return run_threads();
}

static int maps(char *argument) {
    (void)argument;
    return keep_and_run(fill_maps);
}

static int moves(char *argument) {
    (void)argument;
    return keep_and_run(move_or_call);
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {
        {"heap", heap}, {"maps", maps}, {"moves", moves}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
