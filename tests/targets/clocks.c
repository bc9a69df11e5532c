// SPDX-License-Identifier: Apache-2.0
// Prints what the kernel says of time and of the process's own use, by every system call for it. Status 1: a forked child's
// clock was behind its parent's.
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static int child_is_behind(void) {
    int status = 0;
    for (volatile long i = 0; i < 1000000; i++) continue;
    long before_ns = now_ns();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(now_ns() < before_ns);
    waitpid(child, &status, 0);
    return status != 0;
}

int main(void) {
    struct tms times_used;
    struct rusage used;
    struct timeval day;
    long ticks = (long)times(&times_used);
    getrusage(RUSAGE_SELF, &used);
    gettimeofday(&day, NULL);
    printf("%ld %ld %ld %ld ", syscall(SYS_time, NULL), (long)time(NULL), ticks, (long)times_used.tms_utime);
    printf("%ld %ld %ld ", (long)used.ru_utime.tv_usec, used.ru_maxrss, used.ru_minflt);
    printf("%ld.%06ld %ld\n", (long)day.tv_sec, (long)day.tv_usec, (long)clock());
    return child_is_behind();
}
