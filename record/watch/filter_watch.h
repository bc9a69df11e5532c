// SPDX-License-Identifier: Apache-2.0
// Answers recorders that cannot know whether their process has got a filter of system calls (shim/recording/seal.c): the kernel
// says so to others without a risk.
#ifndef HEAPTAPE_FILTER_WATCH_H
#define HEAPTAPE_FILTER_WATCH_H

#include "raw_reader.h"

struct filter_watch {
    struct ht_raw_header **asker;  // headers of the logs of those that ask, or will, mapped
    size_t count, room;
    int wait_ms;
};

// The recorder has opened the log once more, maybe to be noticed.
void filter_watch_meet(struct filter_watch *watch, const struct ht_raw_log *log);
// Answers what has been asked. The milliseconds until it is to be called again; -1: nobody will ask.
int filter_watch_answer(struct filter_watch *watch);
void filter_watch_leave(struct filter_watch *watch);

#endif
