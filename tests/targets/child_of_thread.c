// SPDX-License-Identifier: Apache-2.0
// A thread forks before it has allocated: what is its child's first thread has the stack of that thread. Prints the CPU time of
// allocations in the first thread and in the child, in ns.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "target_support.h"

enum { CALLS = 20000, DEPTH = 30 };

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static __attribute__((noinline)) void allocate_at(unsigned depth) {
    if (depth) {
        allocate_at(depth - 1);
    } else {
        uint64_t before = cpu_ns();
        for (unsigned i = 0; i < CALLS; i++) {
            void *volatile block = malloc(10);
            free(block);
        }
        printf("%llu\n", (unsigned long long)(cpu_ns() - before));
        fflush(stdout);
    }
    __asm__ volatile("");
}

static void *divide(void *unused) {
    pid_t pid = fork();
    if (pid == 0) {
        allocate_at(DEPTH);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, NULL, 0) != pid) target_fail("no child");
    return unused;
}

int main(void) {
    pthread_t thread;
    allocate_at(DEPTH);
    return pthread_create(&thread, NULL, divide, NULL) || pthread_join(thread, NULL);
}
