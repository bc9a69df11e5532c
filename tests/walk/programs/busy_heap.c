// SPDX-License-Identifier: Apache-2.0
// A heap that changes all the time while as many blocks are live. Usage: busy_heap THREADS BLOCKS CALLS_PER_SECOND
// Each of THREADS makes CALLS_PER_SECOND calls: it frees one of its blocks and allocates another, of 16 to 783 bytes and
// one of 50,000 of 200,000 bytes. BLOCKS, less at most one a thread, are live, with as many bytes give or take 0.3 %.
// At SIGTERM it looks whether every block still holds what was written to it, and prints
// "calls N damaged N blocks N usable N": the last two are what is live then.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "live_blocks.h"

static unsigned threads;
static size_t blocks_a_thread;
static long calls_a_second;
static atomic_long calls, damaged, usable;
static volatile sig_atomic_t stopped;
static pthread_barrier_t filled;

static void stop(int signal) { stopped = signal; }

static void fill(struct block *block, unsigned *state) {
    size_t bytes = next_random(state) % 50000 ? 16 + next_random(state) % 768 : 200000;
    *block = (struct block){malloc(bytes), bytes};
    if (!block->address) _exit(98);
    memset(block->address, (int)(bytes % 251), bytes < 4096 ? bytes : 4096);
}

static int is_whole(const struct block *block) {
    for (size_t i = 0; i < block->bytes && i < 4096; i++)
        if (((unsigned char *)block->address)[i] != block->bytes % 251) return 0;
    return 1;
}

static void *run(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument, state = 991 + me * 7919;
    struct block *mine = blocks + me * blocks_a_thread;
    for (size_t i = 0; i < blocks_a_thread; i++) fill(&mine[i], &state);
    pthread_barrier_wait(&filled);
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    while (!stopped) {  // every 5 ms
        for (long i = 0; i < calls_a_second / 400; i++) {
            struct block *block = &mine[next_random(&state) % blocks_a_thread];
            damaged += !is_whole(block);
            free(block->address);
            fill(block, &state);
        }
        calls += calls_a_second / 400 * 2;
        next.tv_nsec += 5000000;
        if (next.tv_nsec >= 1000000000) next.tv_sec++, next.tv_nsec -= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    for (size_t i = 0; i < blocks_a_thread; i++) {
        damaged += !is_whole(&mine[i]);
        usable += (long)malloc_usable_size(mine[i].address);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 4 || signal(SIGTERM, stop) == SIG_ERR) return 2;
    threads = (unsigned)strtoul(argv[1], NULL, 10);
    blocks_a_thread = strtoul(argv[2], NULL, 10) / threads;
    calls_a_second = strtol(argv[3], NULL, 10);
    blocks = map_pages(BLOCKS_MAX * sizeof *blocks);
    pthread_barrier_init(&filled, NULL, threads + 1);
    pthread_t *all = map_pages(threads * sizeof *all);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, run, (void *)(uintptr_t)i)) return 1;
    pthread_barrier_wait(&filled);
    if (write(1, "ready\n", 6) != 6) return 1;
    for (unsigned i = 0; i < threads; i++) pthread_join(all[i], NULL);
    printf("calls %ld damaged %ld blocks %zu usable %ld\n", (long)calls, (long)damaged,
           blocks_a_thread * threads, (long)usable);
    return damaged != 0;
}
