// SPDX-License-Identifier: Apache-2.0
// Programs that would notice if the recorder had another thread or process at work when a call returns.
// Usage: apart_kinds COUNTS MODE [thread]      with `thread` another one has allocated, and ended, before
#include <errno.h>
#include <mqueue.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "target_modes.h"

#ifndef __WALL
#define __WALL 0x40000000
#endif

enum { SIZE_MAIN = 7870, ROUNDS = 100, BLOCKS = 400, BLOCK_BYTES = 300000, TOUCHED_BYTES = 20000 };

static volatile sig_atomic_t signals_seen;

static void count_signal(int number) {
    (void)number;
    signals_seen++;
}

// Memory grows so fast that a sample falls due every millisecond or sooner. After each call `is_as_it_was`
// tells whether the program is alone.
static long count_disturbed(bool (*is_as_it_was)(void)) {
    static char *block[BLOCKS];
    long disturbed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            volatile size_t size = BLOCK_BYTES;
            block[i] = malloc(size);
            disturbed += !is_as_it_was();
            memset(block[i], 1, TOUCHED_BYTES);
            free(tally_malloc(SIZE_MAIN));
            disturbed += !is_as_it_was();
        }
        for (int i = 0; i < BLOCKS; i++) free(block[i]);
    }
    return disturbed;
}

// The kernel refuses this to a process of several threads, as it does new user namespaces.
static bool has_one_thread(void) { return unshare(CLONE_THREAD) == 0; }

static void *allocate_once(void *unused) {
    free(tally_malloc(SIZE_MAIN));
    return unused;
}

// From then on the recorder does not rely on the process having one thread only.
static void after(const char *before) {
    pthread_t thread;
    if (!before) return;
    if (strcmp(before, "thread")) target_fail("no such thing can come before");
    if (pthread_create(&thread, NULL, allocate_once, NULL) || pthread_join(thread, NULL))
        target_fail("no thread");
    while (!has_one_thread()) sched_yield();
}

static bool has_no_child(void) {
    return waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD && !signals_seen;
}

static bool has_no_child_to_wait_for(void) { return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD; }

static int say_disturbed(long disturbed, int status) {
    char text[32];
    int length = snprintf(text, sizeof text, "%ld\n", disturbed);
    return write(1, text, (size_t)length) == length ? status : 99;
}

static int with_one_thread(char *before) {
    after(before);
    return say_disturbed(count_disturbed(has_one_thread), 80);
}

// The kernel runs nobody of a lower priority while this thread does not sleep.
static int with_priority(char *before) {
    after(before);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) ||
        sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &(struct sched_param){.sched_priority = 10}))
        target_fail("no such priority is granted");
    return say_disturbed(count_disturbed(has_one_thread), 83);
}

// A process is told of a message until one of its threads closes the queue.
static int with_queue(char *before) {
    struct mq_attr attributes = {.mq_maxmsg = 2, .mq_msgsize = 8};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    char name[40];
    after(before);
    snprintf(name, sizeof name, "/heaptape-test-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600, &attributes);
    if (queue == (mqd_t)-1) target_fail("no queue");
    mq_unlink(name);
    signal(SIGUSR1, count_signal);
    if (mq_notify(queue, &event)) target_fail("not to be told");
    long disturbed = count_disturbed(has_no_child_to_wait_for);
    if (mq_send(queue, "x", 1, 0)) target_fail("no message");
    for (int tries = 0; !signals_seen && tries < 1000; tries++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return say_disturbed(disturbed + !signals_seen, 84);
}

static int without_child(char *before) {
    after(before);
    signal(SIGCHLD, count_signal);
    return say_disturbed(count_disturbed(has_no_child), 81);
}

// After this the process cannot have another thread, only a child, which would be the first of a namespace.
static int in_another_pid_namespace(char *before) {
    after(before);
    tally_churn(SIZE_MAIN, 100);
    if (unshare(CLONE_NEWPID)) return 79;
    for (int i = 0; i < 100; i++) {
        volatile size_t size = BLOCK_BYTES;
        char *block = malloc(size);
        memset(block, 1, BLOCK_BYTES);
        free(tally_malloc(SIZE_MAIN));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (i % 10 == 0) {
            pid_t child = fork();
            if (child == 0) _exit(i);
            if (child < 0 && i == 0) target_fail("no child");
            if (child > 0 && child_status(child) != i) target_fail("another child");
        }
        free(block);
    }
    return 82;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {{"one_thread", with_one_thread},
                                               {"no_child", without_child},
                                               {"priority", with_priority},
                                               {"queue", with_queue},
                                               {"pid_namespace", in_another_pid_namespace},
                                               {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
