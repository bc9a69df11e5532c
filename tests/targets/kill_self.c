// SPDX-License-Identifier: Apache-2.0
// Allocates on several threads and is killed in the middle, by SIGKILL or another signal's number.
// Usage: kill_self COUNTS [CALLS [SIGNAL]]
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "target_support.h"

enum { THREADS = 3, SIZE_THREAD = 7900, SIZE_MAIN = 7910 };

static _Atomic int started;

static void *work(void *argument) {
    size_t size = SIZE_THREAD + (size_t)(intptr_t)argument;
    started++;
    for (;;) free(tally_malloc(size));
    return NULL;
}

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    int calls = argc > 2 ? atoi(argv[2]) : 100000;
    int number = argc > 3 ? atoi(argv[3]) : SIGKILL;
    pthread_t thread;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, work, (void *)(intptr_t)i)) target_fail("no thread");
    while (started < THREADS) usleep(100);
    tally_churn(SIZE_MAIN, calls);
    raise(number);
    return 1;
}
