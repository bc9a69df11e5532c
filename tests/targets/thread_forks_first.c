// SPDX-License-Identifier: Apache-2.0
// Threads whose first act is fork, and whose children allocate: neither has been seen by the recorder before.
// Then the whole process locks its memory, which must not fill in what the recorder has only reserved. Usage:
// thread_forks_first COUNTS
#include <pthread.h>
#include <sys/wait.h>

#include "target_support.h"

enum { SIZE_CHILD = 7950, THREADS = 8 };

static void *fork_at_once(void *unused) {
    (void)unused;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 100);
        _exit(5);
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 5)
        target_fail("a child did not end as it should");
    return NULL;
}

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fork_at_once, NULL)) target_fail("no thread");
        pthread_join(thread, NULL);
    }
    if (!mlockall(MCL_CURRENT)) munlockall();
    return 16;
}
