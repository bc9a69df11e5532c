// SPDX-License-Identifier: Apache-2.0
#include "left_processes.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A process that starts new ones faster than they can be ended is given up.
enum { POLLS_MAX = 2000, POLL_NS = 1000000 };

// Ends our children but the spared one, where they have not ended. Processes become the first thread's, as that one lives as long
// as we do. Returns how many there were, and counts in `ended` those that are gone.
static uint32_t end_children(pid_t spared, uint32_t *ended) {
    char path[64];
    int child;
    uint32_t found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *list = fopen(path, "re");
    if (!list) return 0;
    while (fscanf(list, "%d", &child) == 1) {
        if (child == spared) continue;
        found++;
        kill(child, SIGKILL);
        *ended += waitpid(child, NULL, WNOHANG) > 0;
    }
    fclose(list);
    return found;
}

static bool has_children(pid_t spared) {
    char path[64];
    int child;
    bool any = false;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *list = fopen(path, "re");
    if (!list) return true;
    while (fscanf(list, "%d", &child) == 1) any = any || child != spared;
    fclose(list);
    return any;
}

bool ht_left_processes_adopt(pid_t spared) {
    return !has_children(spared) && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

uint32_t ht_left_processes_end(pid_t spared) {
    const struct timespec moment = {.tv_nsec = POLL_NS};
    uint32_t ended = 0;
    for (int polls = 0; polls < POLLS_MAX && end_children(spared, &ended); polls++) nanosleep(&moment, NULL);
    return ended;
}
