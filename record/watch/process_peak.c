// SPDX-License-Identifier: Apache-2.0
#include "process_peak.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "now.h"

// The first steps are short, for programs that are. A look takes 3 us, and a step of a millisecond misses at most what a
// program touches meanwhile, 2 MB.
static const double STEP_LEAST_S = 0.0002, STEP_MOST_S = 0.001, STEP_SHARE = 0.01;
static const double PATIENCE_S = 2;  // between SIGTERM and SIGKILL

// As the recorder itself has it of the program (shim/sampling/process_memory.c). The open file is of the process, whatever
// it executes.
static uint64_t rss_bytes_of(int statm, long page_bytes) {
    char text[128];
    uint64_t resident, shared;
    ssize_t got = pread(statm, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    if (sscanf(text, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2 || resident < shared) return 0;
    return (resident - shared) * (uint64_t)page_bytes;
}

static bool has_ended(pid_t pid) {
    siginfo_t information = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &information, WEXITED | WNOWAIT | WNOHANG) ? errno != EINTR
                                                                               : information.si_pid == pid;
}

static void pass_time(int output, double seconds) {
    char bytes[65536];
    struct pollfd wanted = {.fd = output, .events = POLLIN};
    const struct timespec step = {.tv_nsec = (long)(seconds * 1e9)};
    // poll() passes over a descriptor below 0. At the end of the output it would return at once.
    if (ppoll(&wanted, 1, &step, NULL) > 0 && read(output, bytes, sizeof bytes) <= 0) nanosleep(&step, NULL);
}

static void end_it(struct process_peak *watch, double passed_s) {
    if (watch->limit_s <= 0 || passed_s < watch->limit_s) return;
    kill(watch->pid, passed_s > watch->limit_s + PATIENCE_S ? SIGKILL : SIGTERM);
    watch->too_long = true;
}

void process_peak_watch(struct process_peak *watch) {
    char path[64];
    long page_bytes = sysconf(_SC_PAGESIZE);
    double began_s = ht_now_s(), passed_s = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)watch->pid);
    int statm = open(path, O_RDONLY | O_CLOEXEC);
    while (passed_s < watch->for_s && !has_ended(watch->pid)) {
        uint64_t bytes = statm < 0 ? 0 : rss_bytes_of(statm, page_bytes);
        if (bytes > watch->rss_bytes) watch->rss_bytes = bytes;
        double step_s = passed_s * STEP_SHARE;
        pass_time(watch->output, step_s < STEP_LEAST_S  ? STEP_LEAST_S
                                 : step_s > STEP_MOST_S ? STEP_MOST_S
                                                        : step_s);
        passed_s = ht_now_s() - began_s;
        end_it(watch, passed_s);
    }
    if (statm >= 0) close(statm);
}
