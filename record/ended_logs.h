// SPDX-License-Identifier: Apache-2.0
// While a run goes on, cuts the logs of its processes that have ended: one that forbade itself system calls has room there
// for calls that will not come, and cannot give it back.
#ifndef HEAPTAPE_ENDED_LOGS_H
#define HEAPTAPE_ENDED_LOGS_H

#include <pthread.h>
#include <stdbool.h>

struct ended_logs {
    const char *directory, *id;
    int notified, stop;  // descriptors: the folder's events, and the end of the watch
    pthread_t thread;
    bool watches;
};

// Begins to watch the folder of the run with that id. Where that cannot be, the logs are cut when the run has ended.
void ended_logs_watch(struct ended_logs *logs, const char *directory, const char *id);
void ended_logs_leave(struct ended_logs *logs);

#endif
