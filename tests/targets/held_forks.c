// SPDX-License-Identifier: Apache-2.0
// Forks that last: libc's wait for a thread that flushes all files, which waits for one that has locked a file. The first thread
// allocates meanwhile, until the file is gone. Usage: held_forks FILE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "target_support.h"

enum { HELD_US = 400000, BEGIN_US = 50000, DEPTH = 20, PAUSE_US = 200 };

static void *volatile sink;
static atomic_bool finished;

static void *flush(void *unused) {
    fflush(NULL);
    return unused;
}

static void *fork_once(void *unused) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    if (pid < 0 || waitpid(pid, NULL, 0) != pid) target_fail("no child");
    return unused;
}

static void *hold_forks(void *unused) {
    while (!finished) {
        pthread_t flushing, forking;
        flockfile(stdout);
        if (pthread_create(&flushing, NULL, flush, NULL)) target_fail("no thread");
        usleep(BEGIN_US);
        if (pthread_create(&forking, NULL, fork_once, NULL)) target_fail("no thread");
        usleep(HELD_US);
        funlockfile(stdout);
        pthread_join(flushing, NULL);
        pthread_join(forking, NULL);
    }
    return unused;
}

static __attribute__((noinline)) void descend(unsigned depth) {
    sink = malloc(depth + 1);
    free(sink);
    if (depth) descend(depth - 1);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    pthread_t holding;
    if (argc != 2 || pthread_create(&holding, NULL, hold_forks, NULL)) return 1;
    while (!access(argv[1], F_OK)) {
        descend(DEPTH);
        usleep(PAUSE_US);
    }
    finished = true;
    return pthread_join(holding, NULL);
}
