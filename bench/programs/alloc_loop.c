// SPDX-License-Identifier: Apache-2.0
// The worst case for a recorder: threads that do nothing but replace blocks, one malloc and one free after
// another.
//
//     alloc_loop PAIRS LIVE THREADS private|cross
//
// LIVE blocks per thread; each step frees a random one and puts a new one in its place. The PAIRS of malloc
// and free are divided among the threads. With `cross` all threads share one table, so that of T threads each
// frees blocks of another (T - 1) times out of T.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE_MIN = 16, SIZE_MAX_BYTES = 1024, THREADS_MAX = 256 };

struct work {
    pthread_t thread;
    pthread_barrier_t *filled;
    _Atomic(char *) *table;  // the thread's own, or the one that all share
    _Atomic(char *) *part;   // what this thread fills and empties
    size_t table_slots, part_slots;
    uint64_t pairs, random;
    bool shared;
};

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static _Noreturn void fail(const char *what) {
    perror(what);
    exit(1);
}

// Small sizes are the most frequent: the range is halved 0 to 7 times.
static char *new_block(uint64_t random) {
    uint64_t range = (SIZE_MAX_BYTES - SIZE_MIN + 1) >> (random & 7);
    size_t size = SIZE_MIN + ((random >> 3 & 0xffff) * range >> 16);
    char *block = malloc(size);
    if (!block) fail("malloc");
    *block = (char)random;
    return block;
}

static void *run(void *argument) {
    struct work *work = argument;
    uint64_t random = work->random;
    for (size_t i = 0; i < work->part_slots; i++) work->part[i] = new_block(next_random(&random));
    pthread_barrier_wait(work->filled);
    for (uint64_t i = 0; i < work->pairs; i++) {
        uint64_t draw = next_random(&random);
        _Atomic(char *) *slot = &work->table[(draw >> 32) * work->table_slots >> 32];
        if (work->shared) {
            free(atomic_exchange_explicit(slot, new_block(draw), memory_order_acq_rel));
        } else {
            free(atomic_load_explicit(slot, memory_order_relaxed));
            atomic_store_explicit(slot, new_block(draw), memory_order_relaxed);
        }
    }
    pthread_barrier_wait(work->filled);
    for (size_t i = 0; i < work->part_slots; i++) free(work->part[i]);
    return NULL;
}

static uint64_t number(const char *text) {
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno || *end || !value || *text == '-') {
        fprintf(stderr, "alloc_loop: %s is no positive number\n", text);
        exit(2);
    }
    return value;
}

int main(int count, char **arguments) {
    bool shared = count == 5 && !strcmp(arguments[4], "cross");
    if (count != 5 || (!shared && strcmp(arguments[4], "private"))) {
        fprintf(stderr, "Usage: alloc_loop PAIRS LIVE THREADS private|cross\n");
        return 2;
    }
    uint64_t pairs = number(arguments[1]), live = number(arguments[2]), threads = number(arguments[3]);
    static struct work work[THREADS_MAX];
    if (threads > THREADS_MAX || live * threads >= UINT64_C(1) << 32) {
        fprintf(stderr, "alloc_loop: at most %d threads and 2^32 blocks\n", THREADS_MAX);
        return 2;
    }
    pthread_barrier_t filled;
    pthread_barrier_init(&filled, NULL, (unsigned)threads);
    // The table is not malloc's business.
    _Atomic(char *) *table = mmap(NULL, live * threads * sizeof *table, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) fail("mmap");
    for (uint64_t i = 0; i < threads; i++) {
        _Atomic(char *) *part = table + i * live;
        work[i] = (struct work){.filled = &filled,
                                .table = shared ? table : part,
                                .part = part,
                                .table_slots = shared ? live * threads : live,
                                .part_slots = live,
                                .pairs = pairs / threads,
                                .random = UINT64_C(0x9e3779b97f4a7c15) * (i + 1),
                                .shared = shared};
    }
    // One thread is the program's first, as in a program without threads.
    for (uint64_t i = 1; i < threads; i++)
        if ((errno = pthread_create(&work[i].thread, NULL, run, &work[i]))) fail("pthread_create");
    run(&work[0]);
    for (uint64_t i = 1; i < threads; i++) pthread_join(work[i].thread, NULL);
    return 0;
}
