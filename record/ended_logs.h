// SPDX-License-Identifier: Apache-2.0 While a run goes on, cuts the logs of its processes that have ended: one that forbade
// itself system calls has room there for calls that will not come, and cannot give it back. It answers those that run what they
// ask about filters.
//
// A log is cut behind its last chunk: it is sparse, or has room that was prepared.
#ifndef HEAPTAPE_ENDED_LOGS_H
#define HEAPTAPE_ENDED_LOGS_H

#include <pthread.h>
#include <stdbool.h>

#include "raw_reader.h"

// Answers recorders that cannot know whether their process has got a filter of system calls (shim/state/seal.c): the kernel
// says so to others without a risk.
struct filter_watch {
    struct ht_raw_header **asker;  // headers of the logs of those that ask, or will, mapped
    size_t count, room;
    int wait_ms;
};

struct ended_logs {
    const char *directory, *id;
    int notified, stop;  // descriptors: the folder's events, and the end of the watch
    pthread_t thread;
    bool watches, has_thread, cuts;
    struct filter_watch filters;
};

// Before the run with that id: what happens in its folder is known from then on. If that cannot be, the logs are cut when the
// run has ended. NULL, NULL: of a run that is not recorded there is nothing to watch.
void ended_logs_begin(struct ended_logs *logs, const char *directory, const char *id, bool cuts);
// Once the program has started.
void ended_logs_watch(struct ended_logs *logs);
void ended_logs_leave(struct ended_logs *logs);

// Is that a name as the recorder gives it to logs, without folder? Is it a log of the run of that id?
bool log_has_name(const char *name);
bool log_is_of_run(const struct ht_raw_log *log, const char *id);
// Cuts it, if its process has ended.
void log_cut(const struct ht_raw_log *log);

#endif
