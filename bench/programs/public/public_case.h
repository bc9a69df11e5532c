// SPDX-License-Identifier: Apache-2.0
// What the programs of bench/validity/public_cases.toml share. Each has several cases, chosen by name. All draw their sizes from seeds of
// their own, so every run makes the same calls.
#ifndef PUBLIC_CASE_H
#define PUBLIC_CASE_H
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 32, REST_US = 150000 };

struct public_case {
    const char *name;
    void (*run)(void);
};

static inline unsigned drawn(unsigned *state) {
    *state = *state * 1103515245U + 12345U;
    return *state >> 8;
}

static inline size_t between(unsigned *state, size_t low, size_t high) {
    return low + drawn(state) % (high - low + 1);
}

static inline char *filled(size_t size) {
    char *block = malloc(size);
    if (!block) exit(1);
    return memset(block, 1, size);
}

static inline void run_threads(long count, void *(*work)(void *)) {
    pthread_t threads[THREADS_MAX];
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i)) exit(1);
    for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
}

// One thread after the other, as under an interpreter's lock: turn is whose it is.
struct turns {
    pthread_mutex_t lock;
    pthread_cond_t next;
    long turn, threads;
};

static inline void take_turn(struct turns *turns, long who) {
    pthread_mutex_lock(&turns->lock);
    while (turns->turn != who) pthread_cond_wait(&turns->next, &turns->lock);
    pthread_mutex_unlock(&turns->lock);
}

static inline void pass_turn(struct turns *turns) {
    pthread_mutex_lock(&turns->lock);
    turns->turn = (turns->turn + 1) % turns->threads;
    pthread_cond_broadcast(&turns->next);
    pthread_mutex_unlock(&turns->lock);
}

#define TURNS(count) {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, count}

// The program idles at its end: what it holds then is what its owner sees.
static inline int run_case(const struct public_case *cases, size_t count, int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < count; i++) {
        if (strcmp(argv[1], cases[i].name) != 0) continue;
        cases[i].run();
        usleep(REST_US);
        _exit(0);
    }
    fprintf(stderr, "%s: expected the name of a case\n", argv[0]);
    return 2;
}
#endif
