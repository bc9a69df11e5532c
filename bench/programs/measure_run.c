// SPDX-License-Identifier: Apache-2.0
// Runs one program and prints what it used, as one line of JSON.
//
//     measure_run [NAME=VALUE...] PROGRAM [ARGUMENT...]
//
// The variables are set for the program alone. It is started from a process as small as this one because a
// child's peak RSS counts what its parent held at the fork: under a Python parent every small program would
// look the same.
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t microseconds(struct timeval time) { return (int64_t)time.tv_sec * 1000000 + time.tv_usec; }

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void become(char **arguments) {
    for (; *arguments && strchr(*arguments, '='); arguments++) putenv(*arguments);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (*arguments) execvp(*arguments, arguments);
    perror(*arguments ? *arguments : "measure_run: no program given");
    _exit(127);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "Usage: measure_run [NAME=VALUE...] PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    int64_t start_ns = now_ns();
    pid_t child = fork();
    if (child < 0) {
        perror("measure_run: fork");
        return 1;
    }
    if (!child) become(arguments + 1);
    int status;
    struct rusage used;
    while (wait4(child, &status, 0, &used) != child) continue;
    printf("{\"status\": %d, \"cpu_us\": %" PRId64 ", \"wall_ns\": %" PRId64 ", \"max_rss_kib\": %ld}\n",
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
           microseconds(used.ru_utime) + microseconds(used.ru_stime), now_ns() - start_ns, used.ru_maxrss);
    return 0;
}
