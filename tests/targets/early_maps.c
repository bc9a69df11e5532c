// SPDX-License-Identifier: Apache-2.0
// Maps 24 MiB before its first call of malloc, which begins a recording, and gives them back: before 8 MiB of heap take the
// same addresses. Usage: early_maps [child]; child: a forked child gives back what its parent mapped, and does so before
// its own first call.
#include <sys/wait.h>

#include "target_support.h"

enum { HEAP_BYTES = 8 << 20, BLOCK_BYTES = 1 << 20, OWN_BYTES = 24 << 20 };

static char *map_own(void) {
    char *own = mmap(NULL, OWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) target_fail("cannot map");
    memset(own, 1, OWN_BYTES);
    return own;
}

static void fill_heap(void) {
    for (size_t got = 0; got < HEAP_BYTES; got += BLOCK_BYTES) {
        char *volatile block = malloc(BLOCK_BYTES);
        memset(block, 2, BLOCK_BYTES);
    }
}

static int child(char *own) {
    munmap(own, OWN_BYTES);
    fill_heap();
    return 17;
}

int main(int argc, char **argv) {
    int forks = argc > 1 && !strcmp(argv[1], "child");
    char *own = map_own(), *volatile first = malloc(1);
    int status = 0;
    if (!forks) return child(own);
    pid_t pid = fork();
    if (pid == 0) return child(own);
    free(first);
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}
