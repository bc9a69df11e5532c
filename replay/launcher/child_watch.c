// SPDX-License-Identifier: Apache-2.0
#include "child_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "now.h"
#include "talk.h"

// Often enough for a watching user, too seldom to disturb the measured child.
enum { POLL_MS = 200, IDLE_SECONDS_MAX = 60 };

struct polled_child {
    pid_t child;
    int process_fd;  // -1: this kernel has none
    double begun_s;
    uint64_t cpu_ns;
    uint32_t idle_seconds_max;
    uint32_t idle_polls;  // in a row; counted, because while we are stopped ourselves no time passes
};

static bool ended(const struct polled_child *polled, int *status) {
    pid_t got;
    while ((got = waitpid(polled->child, status, WNOHANG)) < 0 && errno == EINTR) {
    }
    return got != 0;
}

static void wait_a_little(const struct polled_child *polled) {
    const struct timespec moment = {.tv_nsec = 5000000};
    struct pollfd process = {.fd = polled->process_fd, .events = POLLIN};
    if (polled->process_fd >= 0) poll(&process, 1, POLL_MS);
    else nanosleep(&moment, NULL);
}

// Whether it just sleeps. One that is stopped, by a debugger say, or waits for a disk is not to blame.
static bool sleeps(pid_t child) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[got] = 0;
    const char *name_end = strrchr(line, ')');
    return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

static bool hangs(struct polled_child *polled) {
    clockid_t clock;
    struct timespec used = {0};
    if (polled->process_fd < 0) return false;  // then polls are not POLL_MS apart
    if (clock_getcpuclockid(polled->child, &clock) || clock_gettime(clock, &used)) return false;
    uint64_t cpu_ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
    bool idle = cpu_ns == polled->cpu_ns && sleeps(polled->child);
    polled->cpu_ns = cpu_ns;
    polled->idle_polls = idle ? polled->idle_polls + 1 : 0;
    return polled->idle_polls >= polled->idle_seconds_max * 1000 / POLL_MS;
}

static bool give_up(struct polled_child *polled, const struct ht_child_watch *watch, char *problem,
                    size_t room) {
    double seconds = ht_now_s() - polled->begun_s;
    char limit[32];
    if (watch->waiting) watch->waiting(watch->context, seconds);
    if (watch->timeout_ns && seconds * 1e9 > (double)watch->timeout_ns) {
        snprintf(problem, room, "was killed after %s s (--timeout)",
                 ht_figures(limit, (double)watch->timeout_ns / 1e9, 3));
        return true;
    }
    if (watch->deadline_ns && ht_now_ns(CLOCK_MONOTONIC) >= watch->deadline_ns) {
        *watch->cut_short = true;
        snprintf(problem, room, "was cut short by --budget");
        return true;
    }
    if (!watch->may_idle && hangs(polled)) {
        *watch->hung = true;
        snprintf(problem, room, "hung without CPU time for %u s and was killed", polled->idle_seconds_max);
        return true;
    }
    return false;
}

bool ht_child_await(pid_t child, const struct ht_child_watch *watch, int *status, char *problem,
                    size_t room) {
    struct polled_child polled = {.child = child,
                                  .process_fd = (int)syscall(SYS_pidfd_open, child, 0),
                                  .begun_s = ht_now_s(),
                                  .idle_seconds_max =
                                      watch->idle_seconds ? watch->idle_seconds : IDLE_SECONDS_MAX};
    bool by_itself = true;
    while (!ended(&polled, status)) {
        if (by_itself && give_up(&polled, watch, problem, room)) {
            kill(child, SIGKILL);
            by_itself = false;
        }
        wait_a_little(&polled);
    }
    if (polled.process_fd >= 0) close(polled.process_fd);
    return by_itself;
}
