// SPDX-License-Identifier: Apache-2.0
// Thread-key destructors that allocate, free, and ask to be called again, in every round that
// pthreads grants. Usage: tls_destructors COUNTS
#include <limits.h>
#include <pthread.h>

#include "target_support.h"

enum { THREADS = 50, SIZE_THREAD = 7400, SIZE_DESTRUCTOR };

static pthread_key_t keys[2];

static void destroy(pthread_key_t key, void *value) {
    tally_churn(SIZE_DESTRUCTOR, 5);
    free(value);
    // pthreads stops calling after PTHREAD_DESTRUCTOR_ITERATIONS rounds; what is set last leaks.
    pthread_setspecific(key, tally_malloc(SIZE_DESTRUCTOR));
}
static void destroy_first(void *value) { destroy(keys[0], value); }
static void destroy_second(void *value) { destroy(keys[1], value); }

static void *work(void *argument) {
    tally_churn(SIZE_THREAD, 10);
    for (int k = 0; k < 2; k++) pthread_setspecific(keys[k], tally_malloc(SIZE_THREAD));
    return argument;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    tally_open(argc > 1 ? argv[1] : NULL);
    pthread_key_create(&keys[0], destroy_first);
    pthread_key_create(&keys[1], destroy_second);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    uint64_t expected = THREADS * 2 * PTHREAD_DESTRUCTOR_ITERATIONS * 6;
    return tally_counts[SIZE_DESTRUCTOR - TALLY_FIRST] == expected ? 9 : 1;
}
