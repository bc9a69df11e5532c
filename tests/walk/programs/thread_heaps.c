// SPDX-License-Identifier: Apache-2.0
// Arenas and thread caches of threads that then stand still. Usage: thread_heaps SHAPE MEGABYTES THREADS [LIST]
//   ratchet  each thread in turn allocates MEGABYTES of small blocks, and frees all but every 5000th while the next allocates
//   caches   all at once allocate MEGABYTES together, of all sizes that a thread cache has and some that are mapped, and free a tenth
//   gone     caches, and then every other thread ends, so that its arena is free for others
//   forked   caches, and then a child, which has no thread but the first, frees some and reallocates some: look at the child
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "live_blocks.h"

static char shape;
static size_t bytes;
static unsigned threads;
static pthread_barrier_t turn;

static void ratchet(unsigned me) {
    size_t *mine = map_pages(BLOCKS_MAX * sizeof *mine), count = 0;
    unsigned state = 77 + me;
    for (unsigned i = 0; i <= threads; i++) {
        for (size_t sum = 0, size; i == me && sum < bytes; sum += size + 8) {
            size = 32 + next_random(&state) % 2000;
            mine[count++] = keep(malloc(size), size);
        }
        for (size_t k = 0; i == me + 1 && k < count; k++)
            if (k % 5000 != 4999) release(mine[k]);
        pthread_barrier_wait(&turn);
    }
}

static void caches(void) {
    size_t count = 0, *mine = map_pages(BLOCKS_MAX * sizeof *mine);
    for (size_t sum = 0, size; sum < bytes / threads; sum += size) {
        size = count % 2000 == 1999 ? 70000 + count : 24 + 16 * (count % 64);
        mine[count++] = keep(malloc(size), size);
    }
    for (size_t i = 0; i < count; i++)
        if (i / 64 % 10 == 0) release(mine[i]);
}

static void *run(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    if (shape == 'r') ratchet(me);
    else caches();
    pthread_barrier_wait(&turn);
    if (shape == 'g' && me % 2) return NULL;
    for (;;) pause();
}

static void go_on_as_child(void) {
    pid_t parent = getpid();
    if (fork())
        for (;;) pause();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) _exit(94);
    for (size_t i = 0, used = blocks_used; i < used; i++) {
        if (!blocks[i].address || i % 7 > 1) continue;
        size_t doubled = blocks[i].bytes * 2;
        if (i % 7) keep(realloc(blocks[i].address, doubled), doubled), blocks[i].address = NULL;
        else release(i);
    }
}

int main(int argc, char **argv) {
    if (argc < 4 || !strchr("rcgf", shape = argv[1][0])) return 2;
    bytes = strtoul(argv[2], NULL, 10) * 1000000;
    threads = (unsigned)strtoul(argv[3], NULL, 10);
    blocks = map_pages(BLOCKS_MAX * sizeof *blocks);
    pthread_barrier_init(&turn, NULL, threads + 1);
    pthread_t *all = map_pages(threads * sizeof *all);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, run, (void *)(uintptr_t)i)) return 1;
    for (unsigned i = 0; shape == 'r' && i <= threads; i++) pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    for (unsigned i = 1; shape == 'g' && i < threads; i += 2) pthread_join(all[i], NULL);
    if (shape == 'f') go_on_as_child();
    wait_with(argc > 4 ? argv[4] : NULL);
}
