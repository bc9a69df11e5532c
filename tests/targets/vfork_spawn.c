// SPDX-License-Identifier: Apache-2.0
// posix_spawn, and a vfork child that allocates in its parent's memory before it execs.
// Usage: vfork_spawn COUNTS
#include <spawn.h>
#include <sys/wait.h>

#include "target_support.h"

enum { SIZE_PARENT = 7300, SIZE_IMAGE, SIZE_BORROWED };

static int wait_for(pid_t pid) {
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) target_fail("a child is lost");
    return WEXITSTATUS(status);
}

int main(int argc, char **argv) {
    if (argc < 2) target_fail("usage: vfork_spawn COUNTS");
    tally_open(argv[1]);
    if (argc > 2) {  // the image that both children become
        tally_churn(SIZE_IMAGE, 100);
        return 7;
    }
    char *const image[] = {argv[0], argv[1], (char *)"image", NULL};
    tally_churn(SIZE_PARENT, 100);
    pid_t pid;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, image, environ)) target_fail("posix_spawn");
    if (wait_for(pid) != 7) return 1;
    // The child shares the parent's heap: what it takes and leaves there is the parent's to free.
    static void *volatile left_behind;
    pid = vfork();
    if (pid == 0) {
        tally_churn(SIZE_BORROWED, 10);
        left_behind = tally_malloc(SIZE_BORROWED);
        execve("/proc/self/exe", image, environ);
        _exit(97);
    }
    if (wait_for(pid) != 7) return 1;
    free(left_behind);
    tally_churn(SIZE_PARENT, 100);
    return 8;
}
