// SPDX-License-Identifier: Apache-2.0
// Forks while threads allocate: a child and a grandchild allocate, and free and resize blocks that
// they inherited; one leaves by _exit, one by exit. Usage: fork_children COUNTS
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "target_support.h"

enum { INHERITED = 400, SIZE_INHERITED = 7100, SIZE_CHILD, SIZE_GRANDCHILD, SIZE_AFTER };

static _Atomic int stop;
static void *inherited[INHERITED];

static void *allocate_until_stopped(void *argument) {
    void *kept[64] = {0};
    for (unsigned i = 0; !stop; i++) {
        free(kept[i % 64]);
        kept[i % 64] = malloc(10 + i % 1000);
    }
    for (int i = 0; i < 64; i++) free(kept[i]);
    return argument;
}

static void use_inherited(int from, int to) {
    for (int i = from; i < to; i++) {
        if (i % 3 == 0) inherited[i] = realloc(inherited[i], 5000);
        free(inherited[i]);
    }
}

static void grandchild(void) {
    use_inherited(100, 200);
    tally_churn(SIZE_GRANDCHILD, 300);
    exit(4);
}

static void child(void) {
    use_inherited(0, 100);
    tally_churn(SIZE_CHILD, 500);
    pid_t pid = fork();
    if (pid == 0) grandchild();
    int status;
    if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 4) _exit(98);
    use_inherited(100, INHERITED);  // its own copies: what the grandchild freed is still here
    _exit(3);
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    tally_open(argc > 1 ? argv[1] : NULL);
    for (int i = 0; i < INHERITED; i++) inherited[i] = tally_malloc(SIZE_INHERITED);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, allocate_until_stopped, NULL);
    usleep(20000);  // the threads are in the midst of it
    pid_t pid = fork();
    if (pid == 0) child();
    int status;
    if (waitpid(pid, &status, 0) != pid) target_fail("the child is lost");
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    use_inherited(0, INHERITED);
    tally_churn(SIZE_AFTER, 200);
    return WEXITSTATUS(status) == 3 ? 5 : 1;
}
