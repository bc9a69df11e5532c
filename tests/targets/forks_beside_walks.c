// SPDX-License-Identifier: Apache-2.0
// Threads have ever new stacks, in a program that has registered code's frames, as one with a JIT compiler does: libgcc's
// unwinder takes a lock for each of these. Children that are forked meanwhile have new stacks, too. Each must end.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "registered_frames.h"
#include "target_support.h"

enum { THREADS = 3, CHILDREN = 600, WAITS_MAX = 20000, WAIT_US = 1000 };

static atomic_bool done;

static void *descend_for_ever(void *number) {
    unsigned random = (unsigned)(uintptr_t)number;
    while (!done) {
        random = random * 1103515245 + 12345;
        descend(DEPTH, random >> 16);
    }
    return NULL;
}

// A child that hangs may have all signals blocked.
static bool ends_well(pid_t pid) {
    int status;
    for (unsigned wait = 0; wait < WAITS_MAX; wait++) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended) return ended == pid && !status;
        usleep(WAIT_US);
    }
    kill(pid, SIGKILL);
    return false;
}

int main(void) {
    static uint8_t frames[128];
    pthread_t thread[THREADS];
    describe(frames);
    __register_frame(frames);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, descend_for_ever, (void *)i)) target_fail("no thread");
    for (unsigned i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (unsigned way = 0; way < 4; way++) descend(DEPTH, i * 77 + way * 4099);
            _exit(0);
        }
        if (pid < 0 || !ends_well(pid)) target_fail("a child did not end");
    }
    done = true;
    for (unsigned i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    return 0;
}
