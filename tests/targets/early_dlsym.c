// SPDX-License-Identifier: Apache-2.0
// A dlsym that does first what allocators do as they begin: glibc before 2.34 allocates when dlsym is called first. Each function
// is to answer although nobody has been able to look for the C library's.
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stddef.h>
#include <time.h>

#ifdef __x86_64__
#define VERSION "GLIBC_2.2.5"
#else
#define VERSION "GLIBC_2.17"
#endif

static void ask(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec now, nap = {.tv_nsec = 1000};
    sem_t semaphore;
    assert(!clock_gettime(CLOCK_REALTIME, &now) && now.tv_sec > 0);
    assert(!nanosleep(&nap, NULL) && !clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) && sched_getcpu() >= 0);
    pthread_mutex_lock(&mutex);
    pthread_cond_signal(&condition);
    pthread_cond_broadcast(&condition);
    pthread_cond_wait(&condition, &mutex);  // which may wake up without cause
    int ended;
    while (!(ended = pthread_cond_timedwait(&condition, &mutex, &now))) continue;
    assert(ended == ETIMEDOUT &&
           pthread_cond_clockwait(&condition, &mutex, CLOCK_REALTIME, &now) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    sem_init(&semaphore, 0, 1);
    assert(!sem_wait(&semaphore) && sem_timedwait(&semaphore, &now) == -1 && errno == ETIMEDOUT);
}

void *dlsym(void *restrict handle, const char *restrict name) {
    static void *(*next)(void *, const char *);
    if (!next) {
        ask();
        *(void **)&next = dlvsym(RTLD_NEXT, "dlsym", VERSION);
    }
    return next(handle, name);
}
