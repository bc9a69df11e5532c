// SPDX-License-Identifier: Apache-2.0
// Thousands of short threads, eight at a time; each leaves a block that the main thread frees after
// it has ended. Usage: thread_churn COUNTS [THREADS]
#include <pthread.h>

#include "target_support.h"

enum { AT_ONCE = 8, SIZE_OWN = 7500, SIZE_LEFT };

static void *work(void *argument) {
    tally_churn(SIZE_OWN, 20);
    (void)argument;
    return tally_malloc(SIZE_LEFT);
}

int main(int argc, char **argv) {
    pthread_t threads[AT_ONCE];
    int count = argc > 2 ? atoi(argv[2]) : 4000;
    tally_open(argc > 1 ? argv[1] : NULL);
    for (int started = 0; started < count; started += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++)
            if (pthread_create(&threads[i], NULL, work, NULL)) target_fail("no thread");
        for (int i = 0; i < AT_ONCE; i++) {
            void *left;
            pthread_join(threads[i], &left);
            free(left);
        }
    }
    return 10;
}
