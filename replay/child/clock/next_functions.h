// SPDX-License-Identifier: Apache-2.0
// The functions that names of ours hide: the next ones of these names, usually the C library's. They are
// searched before any library's constructor runs, not when they are first called: that may be with an
// allocator's lock held, while another thread holds the loader's and wants memory.
#ifndef HEAPTAPE_NEXT_FUNCTIONS_H
#define HEAPTAPE_NEXT_FUNCTIONS_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/select.h>
#include <time.h>

#define HT_NEXT_FUNCTIONS(X)                                                                                 \
    X(clock_gettime)                                                                                         \
    X(nanosleep)                                                                                             \
    X(clock_nanosleep)                                                                                       \
    X(poll)                                                                                                  \
    X(ppoll)                                                                                                 \
    X(select)                                                                                                \
    X(pselect)                                                                                               \
    X(pthread_cond_wait)                                                                                     \
    X(pthread_cond_timedwait)                                                                                \
    X(pthread_cond_clockwait)                                                                                \
    X(pthread_cond_signal)                                                                                   \
    X(pthread_cond_broadcast)                                                                                \
    X(sem_wait)                                                                                              \
    X(sem_clockwait)

#define HT_NEXT_POINTER(NAME) __typeof__(&NAME) NAME;
extern struct ht_next {
    HT_NEXT_FUNCTIONS(HT_NEXT_POINTER)
} ht_next;

#endif
