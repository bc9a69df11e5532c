// SPDX-License-Identifier: Apache-2.0
// Calls whose arguments the kernel refuses, as programs make them that ask what it can do. Prints each answer.
// Usage: bad_pointers
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result) {
    printf("%s: %ld %s\n", what, result, result < 0 ? strerrorname_np(errno) : "");
}

int main(void) {
    void *bad = (void *)8, *volatile none = NULL;
    uint64_t forks[11] = {0};
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(malloc(10));
    tell("setrlimit", setrlimit(RLIMIT_AS, bad));
    tell("setrlimit, no access", setrlimit(RLIMIT_AS, (void *)page));
    tell("prlimit", prlimit(0, RLIMIT_AS, bad, NULL));
    tell("prlimit, old", prlimit(0, RLIMIT_AS, NULL, bad));
    tell("prlimit, above the hard limit", prlimit(0, RLIMIT_AS, &(struct rlimit){2 << 20, 1 << 20}, NULL));
    tell("clone3, no arguments", syscall(SYS_clone3, none, 0));
    tell("clone3, bad", syscall(SYS_clone3, bad, 64));
    tell("clone3, no access", syscall(SYS_clone3, page, 88));
    tell("clone3, too few bytes", syscall(SYS_clone3, bad, 7));
    tell("clone3, too many bytes", syscall(SYS_clone3, forks, 1 << 20));
    tell("seccomp", syscall(SYS_seccomp, 1, 0, bad));
    tell("prctl", prctl(PR_SET_SECCOMP, 2, bad));
    fflush(stdout);
    // One that is good after all: the child's calls are recorded in a log of its own.
    forks[4] = 17;  // SIGCHLD
    long pid = syscall(SYS_clone3, forks, 88);
    free(malloc(20));
    if (pid == 0) _exit(7);
    int status = 0;
    if (pid > 0) waitpid((pid_t)pid, &status, 0);
    printf("clone3: %d\n", pid < 0 ? -1 : WEXITSTATUS(status));
    return 44;
}
