// SPDX-License-Identifier: Apache-2.0
// A signal handler that allocates behind each instruction of a fork, each time from another stack. Prints how long the longest one
// took, in us, and how many there were. Allocates LATER bytes from new stacks afterwards. Usage: stepped_fork
#include <signal.h>
#include <time.h>

#include "single_steps.h"
#include "target_modes.h"

enum { DEPTH = 16, SIZE = 40, LATER = 7000, LATER_CALLS = 100 };

static void *volatile sink;
static volatile unsigned handled;
static volatile size_t size = SIZE;
static volatile uint64_t longest_us;
static pid_t parent;

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static __attribute__((noinline)) void descend(unsigned depth, unsigned way) {
    if (!depth) {
        sink = malloc(size);
        free(sink);
    } else if (way & 1) {
        descend(depth - 1, way >> 1);
        __asm__ volatile("nop");
    } else {
        descend(depth - 1, way >> 1);
        __asm__ volatile("nop; nop");
    }
}

static void step(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
    if (getpid() != parent) {
        stop_steps_of(context);
        return;
    }
    keep_steps_of(context);
    uint64_t before = now_us();
    descend(DEPTH, handled++);
    uint64_t took = now_us() - before;
    if (took > longest_us) longest_us = took;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    parent = getpid();
    descend(DEPTH, 0xffff);
    sigaction(SIGTRAP, &action, NULL);
    sigset_t all, before;
    sigfillset(&all);
    begin_steps();
    sigprocmask(SIG_SETMASK, &all, &before);  // as fork() itself does since glibc 2.41
    pid_t pid = fork();
    sigprocmask(SIG_SETMASK, &before, NULL);
    end_steps();
    if (!pid) _exit(0);
    if (child_status(pid)) target_fail("the child did not end as it should");
    size = LATER;
    for (unsigned call = 0; call < LATER_CALLS; call++) descend(DEPTH, 0xffff - call);
    printf("%llu %u\n", (unsigned long long)longest_us, handled);
    return 0;
}
