// SPDX-License-Identifier: Apache-2.0
// A real-time thread whose children the kernel makes ordinary (SCHED_RESET_ON_FORK, as of sound servers) allocates
// beside a real-time thread of less priority that keeps the processor of both busy. Ends with 3 if no such priority is
// granted, with 1 if a period took so long that the thread must have waited for an ordinary one.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PERIODS = 60, BLOCKS = 20, PERIOD_US = 3000 };
static const double LONGEST_S = 0.2;

static cpu_set_t processor;
static atomic_bool stops, spins, refused;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void become_realtime(int priority, int flags) {
    const struct sched_param wanted = {.sched_priority = priority};
    if (sched_setaffinity(0, sizeof processor, &processor) ||
        sched_setscheduler(0, SCHED_FIFO | flags, &wanted))
        refused = true;
}

static void *spin(void *unused) {
    become_realtime(10, 0);
    spins = true;
    while (!stops && !refused) continue;
    return unused;
}

static void *work(void *longest) {
    become_realtime(50, SCHED_RESET_ON_FORK);
    for (unsigned period = 0; period < PERIODS && !refused; period++) {
        usleep(PERIOD_US);
        double begun = now_s();
        for (unsigned i = 0; i < BLOCKS; i++) {
            char *volatile small = malloc(20000 + period * 50), *volatile large = malloc(300000);
            if (!small || !large) abort();
            memset(small, 1, 20000);
            memset(large, 1, 300000);
            free(small);
            free(large);
        }
        double took = now_s() - begun;
        if (took > *(double *)longest) *(double *)longest = took;
    }
    return NULL;
}

int main(void) {
    pthread_t spinner, worker;
    double longest_s = 0;
    CPU_ZERO(&processor);
    CPU_SET((unsigned)sched_getcpu(), &processor);
    if (pthread_create(&spinner, NULL, spin, NULL)) return 2;
    while (!spins) usleep(100);
    if (pthread_create(&worker, NULL, work, &longest_s)) return 2;
    pthread_join(worker, NULL);
    stops = true;
    pthread_join(spinner, NULL);
    if (refused) return 3;
    fprintf(stderr, "longest period: %.4f s\n", longest_s);
    return longest_s > LONGEST_S;
}
