// SPDX-License-Identifier: Apache-2.0 What `heaptape record` prints on stderr: before the program starts, and the result. With
// -q it still prints what went wrong or was not recorded.
#ifndef HEAPTAPE_RECORD_TALK_H
#define HEAPTAPE_RECORD_TALK_H

#include <stdio.h>

#include "found_logs.h"
#include "group_talk.h"
#include "run_converter.h"

struct record_talk {
    bool quiet, verbose;
    bool only_some;  // processes were to be recorded
    bool hooks;      // were planned, of a linked-in allocator
    const struct group_watch *group;
};

void record_say_directory(const struct record_talk *talk, const char *directory);

// Hooks that were planned but not set, as the program's log says; empty: it says nothing.
void record_say_hooks(const struct record_talk *talk, const char *hooks);
// A line for each of the first processes; * marks the one that was started.
void record_write_processes(FILE *out, const struct found_logs *found, size_t most);
// Says what a run left as logs.
void record_say_logs(const struct record_talk *talk, const struct found_logs *found,
                     const struct ending *ending);
// Says what came of a run whose logs became traces beside it.
void record_say_traces(const struct record_talk *talk, const struct converted *result, size_t count);
// Says why no call was recorded.
void record_say_nothing_recorded(const char *name, const struct found_logs *found, const char *directory);

// heaptape record --list: the processes of a run whose logs are in a folder.
// Prints a table, or JSON: the program that matters comes first. Returns an exit status.
int log_list_print(const char *folder, bool as_json);

#endif
