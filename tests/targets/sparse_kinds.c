// SPDX-License-Identifier: Apache-2.0
// Programs of one thread, whose calls the recorder may leave without a time: pauses of three kinds, and what ends
// that. Usage: sparse_kinds COUNTS MODE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "target_modes.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

enum {
    BLOCKS = 100,
    PAUSES = 3,
    PAUSE_NS = 60000000,
    SIZE_FIRST = 7730,
    SIZE_HANDLER = 7740,
    SIZE_AFTER = 7741
};

extern volatile int signal_safe_malloc_raises;

static void *blocks[BLOCKS];

static void fill(size_t size) {
    for (int i = 0; i < BLOCKS; i++) blocks[i] = tally_malloc(size);
}

static void empty(void) {
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleeps(void) { nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL); }

static void computes(void) {
    for (long end = now_ns() + PAUSE_NS; now_ns() < end;) continue;
}

// A child wakes it up.
static void is_stopped(void) {
    pid_t own = getpid(), child = fork();
    if (child == 0) {
        sleeps();
        kill(own, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    if (child_status(child)) target_fail("the child failed");
}

// After each pause blocks of another size.
static int pauses(char *unused) {
    (void)unused;
    void (*const pause[PAUSES])(void) = {sleeps, computes, is_stopped};
    for (size_t i = 0; i < PAUSES; i++) {
        fill(SIZE_FIRST + i);
        empty();
        pause[i]();
    }
    fill(SIZE_AFTER);
    return 50;
}

// The same in a child that is in another time namespace than its parent, whose clock it has just used.
static int in_a_namespace(char *unused) {
    static const char offset[] = "monotonic 50000 0\n";
    fill(SIZE_FIRST);
    empty();
    if (unshare(CLONE_NEWTIME)) target_fail("no time namespace");
    int offsets = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    if (write(offsets, offset, sizeof offset - 1) < 0) target_fail("no offset of the clock");
    close(offsets);
    pid_t child = fork();
    if (child == 0) exit(pauses(unused));
    return child_status(child) == 50 ? 53 : 99;
}

static void exchange(void) {
    for (int i = 0; i < BLOCKS / 2; i++) {
        free(blocks[i]);
        blocks[i] = tally_malloc(SIZE_HANDLER);
    }
}

static void handle(int number) {
    (void)number;
    exchange();
}

// The handler interrupts the first call after many, and frees what those allocated.
static int interrupted(char *unused) {
    (void)unused;
    signal(SIGUSR1, handle);
    fill(SIZE_FIRST);
    signal_safe_malloc_raises = SIGUSR1;
    void *last = tally_malloc(SIZE_FIRST);
    sleeps();
    empty();
    free(last);
    fill(SIZE_AFTER);
    return 51;
}

static void *exchanging(void *unused) {
    exchange();
    return unused;
}

// The first thread is silent while the second does the same.
static int second_thread(char *unused) {
    (void)unused;
    pthread_t thread;
    fill(SIZE_FIRST);
    if (pthread_create(&thread, NULL, exchanging, NULL)) target_fail("no thread");
    sleeps();
    pthread_join(thread, NULL);
    empty();
    fill(SIZE_AFTER);
    return 52;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"pauses", pauses},
                                               {"namespace", in_a_namespace},
                                               {"interrupted", interrupted},
                                               {"second_thread", second_thread},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
