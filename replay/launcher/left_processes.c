// SPDX-License-Identifier: Apache-2.0
#include "left_processes.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A process that starts new ones faster than they can be ended is given up.
enum { POLLS_MAX = 2000, POLL_NS = 1000000 };

bool ht_left_processes_adopt(void) {
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD) return false;
    return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

// Processes become the first thread's, as that one lives as long as we do.
static void kill_children(void) {
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *list = fopen(path, "re");
    if (!list) return;
    while (fscanf(list, "%d", &child) == 1) kill(child, SIGKILL);
    fclose(list);
}

uint32_t ht_left_processes_end(void) {
    const struct timespec moment = {.tv_nsec = POLL_NS};
    uint32_t ended = 0;
    for (int polls = 0; polls < POLLS_MAX; polls++) {
        pid_t got;
        while ((got = waitpid(-1, NULL, WNOHANG)) > 0) ended++;
        if (got < 0) break;
        kill_children();
        nanosleep(&moment, NULL);
    }
    return ended;
}
