// SPDX-License-Identifier: Apache-2.0
#include "next_functions.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

// What is called until the next functions are found: glibc before 2.34 allocates when dlsym is called first, and the allocator
// may then ask for the time or start a thread. The clockwaits, of glibc 2.30, may not be there at all. Whoever waits here naps.
static void nap(void) {
    static const struct timespec time = {.tv_nsec = 100000};
    syscall(SYS_nanosleep, &time, NULL);
}

static int early_clock_gettime(clockid_t id, struct timespec *now) {
    return (int)syscall(SYS_clock_gettime, id, now);
}

static int early_nanosleep(const struct timespec *time, struct timespec *rest) {
    return (int)syscall(SYS_nanosleep, time, rest);
}

static int early_clock_nanosleep(clockid_t id, int flags, const struct timespec *time,
                                 struct timespec *rest) {
    return syscall(SYS_clock_nanosleep, id, flags, time, rest) ? errno : 0;
}

static bool has_come(clockid_t id, const struct timespec *moment) {
    struct timespec now;
    early_clock_gettime(id, &now);
    return now.tv_sec > moment->tv_sec || (now.tv_sec == moment->tv_sec && now.tv_nsec >= moment->tv_nsec);
}

// A condition may wake up whoever waits for it without cause.
static int early_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex) {
    (void)cond;
    pthread_mutex_unlock(mutex);
    nap();
    return pthread_mutex_lock(mutex);
}

static int early_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t id,
                                const struct timespec *restrict moment) {
    return has_come(id, moment) ? ETIMEDOUT : early_cond_wait(cond, mutex);
}

static int early_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                const struct timespec *restrict moment) {
    return early_cond_clockwait(cond, mutex, CLOCK_REALTIME, moment);
}

static int early_cond_signal(pthread_cond_t *cond) {
    (void)cond;
    return 0;
}

static int early_sem_wait(sem_t *semaphore) {
    int failed;
    while ((failed = sem_trywait(semaphore)) && errno == EAGAIN) nap();
    return failed;
}

static int early_sem_clockwait(sem_t *restrict semaphore, clockid_t id,
                               const struct timespec *restrict moment) {
    int failed;
    while ((failed = sem_trywait(semaphore)) && errno == EAGAIN) {
        if (has_come(id, moment)) {
            errno = ETIMEDOUT;
            return -1;
        }
        nap();
    }
    return failed;
}

struct ht_next ht_next = {.clock_gettime = early_clock_gettime,
                          .nanosleep = early_nanosleep,
                          .clock_nanosleep = early_clock_nanosleep,
                          .pthread_cond_wait = early_cond_wait,
                          .pthread_cond_timedwait = early_cond_timedwait,
                          .pthread_cond_clockwait = early_cond_clockwait,
                          .pthread_cond_signal = early_cond_signal,
                          .pthread_cond_broadcast = early_cond_signal,
                          .sem_wait = early_sem_wait,
                          .sem_clockwait = early_sem_clockwait};

static void look_up(void) {
#define LOOK_UP(NAME)                                                                                        \
    {                                                                                                        \
        void *found = dlsym(RTLD_NEXT, #NAME);                                                               \
        if (found) ht_next.NAME = (__typeof__(&NAME))found;                                                  \
    }
    HT_NEXT_FUNCTIONS(LOOK_UP)
}

// An executable's alone can be so early.
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(void) = look_up;
