// SPDX-License-Identifier: Apache-2.0
// While a run goes on, cuts the logs of its processes that have ended: one that forbade itself system calls has room there
// for calls that will not come, and cannot give it back. Of those that run it answers what they ask about filters.
#ifndef HEAPTAPE_ENDED_LOGS_H
#define HEAPTAPE_ENDED_LOGS_H

#include <pthread.h>
#include <stdbool.h>

#include "filter_watch.h"

struct ended_logs {
    const char *directory, *id;
    int notified, stop;  // descriptors: the folder's events, and the end of the watch
    pthread_t thread;
    bool watches, has_thread, cuts;
    struct filter_watch filters;
};

// Before the run with that id: what happens in its folder is known from then on. Where that cannot be, the logs are cut when
// the run has ended. NULL, NULL: of a run that is not recorded there is nothing to watch.
void ended_logs_begin(struct ended_logs *logs, const char *directory, const char *id, bool cuts);
// Once the program has started.
void ended_logs_watch(struct ended_logs *logs);
void ended_logs_leave(struct ended_logs *logs);

#endif
