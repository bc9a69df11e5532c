// SPDX-License-Identifier: Apache-2.0
// Waits in every way that a program can, a hundredth of a second each, and prints how long by its own clock, in
// milliseconds. Ends with status 1 where a wait was shorter.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_NS = 10000000, SECOND_NS = 1000000000 };

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static struct timespec later(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += WAIT_NS;
    time.tv_sec += time.tv_nsec / SECOND_NS;
    time.tv_nsec %= SECOND_NS;
    return time;
}

static const struct timespec for_so_long = {.tv_nsec = WAIT_NS};

static void sleeps(void) { nanosleep(&for_so_long, NULL); }

static void sleeps_until(void) {
    struct timespec until = later(CLOCK_MONOTONIC);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void sleeps_until_a_date(void) {
    struct timespec until = later(CLOCK_REALTIME);
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL);
}

static void on_a_condition(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec until = later(CLOCK_REALTIME);
    pthread_mutex_lock(&lock);
    while (!pthread_cond_timedwait(&never, &lock, &until)) continue;
    pthread_mutex_unlock(&lock);
}

static void on_a_semaphore(void) {
    sem_t never;
    struct timespec until = later(CLOCK_REALTIME);
    sem_init(&never, 0, 0);
    sem_timedwait(&never, &until);
}

static void by_poll(void) { poll(NULL, 0, WAIT_NS / 1000000); }
static void by_ppoll(void) { ppoll(NULL, 0, &for_so_long, NULL); }
static void by_select(void) { select(0, NULL, NULL, NULL, &(struct timeval){.tv_usec = WAIT_NS / 1000}); }
static void by_pselect(void) { pselect(0, NULL, NULL, NULL, &for_so_long, NULL); }

static void by_epoll(void) {
    struct epoll_event event;
    int fd = epoll_create1(0);
    epoll_wait(fd, &event, 1, WAIT_NS / 1000000);
    close(fd);
}

static void for_a_signal(void) {
    sigset_t none;
    sigemptyset(&none);
    sigtimedwait(&none, NULL, &for_so_long);
}

int main(void) {
    void (*const ways[])(void) = {
        sleeps,   sleeps_until, sleeps_until_a_date, on_a_condition, on_a_semaphore, by_poll,
        by_ppoll, by_select,    by_pselect,          by_epoll,       for_a_signal};
    int shorter = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        long before_ns = now_ns();
        ways[i]();
        long took_ns = now_ns() - before_ns;
        printf("%ld ", took_ns / 1000000);
        shorter |= took_ns < WAIT_NS;
    }
    printf("\n");
    return shorter;
}
