// SPDX-License-Identifier: Apache-2.0
#include "confined.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPU_S_MAX = 60 };
static const rlim_t FILE_BYTES_MAX = (rlim_t)1 << 30;
#ifdef HEAPTAPE_SANITIZED  // a sanitizer reserves more
static const rlim_t MEMORY_BYTES_MAX = RLIM_INFINITY;
#else
static const rlim_t MEMORY_BYTES_MAX = (rlim_t)3 << 30;
#endif

void *confined_memory(size_t bytes) {
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return made == MAP_FAILED ? NULL : made;
}

static bool limit(__rlimit_resource_t what, rlim_t most) {
    struct rlimit as_is;
    if (getrlimit(what, &as_is)) return false;
    if (most > as_is.rlim_max) most = as_is.rlim_max;
    return !setrlimit(what, &(struct rlimit){most, most});
}

static bool confine(pid_t parent) {
    signal(SIGXFSZ, SIG_IGN);  // a write fails instead
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool confined = getppid() == parent && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && limit(RLIMIT_CORE, 0) &&
                    limit(RLIMIT_CPU, CPU_S_MAX) && limit(RLIMIT_FSIZE, FILE_BYTES_MAX) &&
                    limit(RLIMIT_AS, MEMORY_BYTES_MAX);
    return confined;
}

static int ended_early(int status, const char *path, struct ht_error *error) {
    bool late = WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL);
    error->status = HT_EXIT_INPUT;
    if (late)
        snprintf(error->message, sizeof error->message,
                 "%.300s: expected a file that is read in %d s of CPU time, found one that takes more", path,
                 CPU_S_MAX);
    else
        snprintf(error->message, sizeof error->message, "%.300s: reading it ended with %s %d", path,
                 WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return -1;
}

int confined_run(int (*work)(void *context, struct ht_error *error), void *context, const char *path,
                 struct ht_error *error) {
    enum { WORKED = 0, FAILED = 10 };
    pid_t parent = getpid(), ended;
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) return ht_error_system(error, path, "cannot start a process");
    if (child == 0) {
        if (!confine(parent)) {
            ht_error_system(error, path, "cannot limit a process");
            _exit(FAILED);
        }
        _exit(work(context, error) ? FAILED : WORKED);
    }
    do ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    error->message[sizeof error->message - 1] = 0;
    if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == WORKED) return 0;
    if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == FAILED && error->status) return -1;
    return ended_early(status, path, error);
}
