// SPDX-License-Identifier: Apache-2.0
// The logs that a recorded run has left: found, cut to length, counted.
#ifndef HEAPTAPE_FOUND_LOGS_H
#define HEAPTAPE_FOUND_LOGS_H

#include <stddef.h>

#include "heap_share.h"
#include "raw_reader.h"
#include "recorded_run.h"

struct found_log {
    char *path;
    uint64_t bytes, calls;  // bytes: what the file takes on disk
    uint32_t threads;
    double append_ns;   // CPU time that its appends took at least; 0: unknown
    double upkeep_ns;   // and the most that all else did
    const char *shell;  // the shell that it is of, or NULL
    char *inside;       // the words about libraries with an allocator of their own, or NULL
    char *bypassed_by;  // objects that go past the recorder, or NULL
    char *own_malloc;   // libraries with a malloc of their own, or NULL
    char *namespaces;   // libraries that were opened by dlmopen, or NULL
    char *restricted;   // what has put the log out of the process's reach, or NULL
    char *executable;   // NULL: unknown
    char *command;      // the command line, or NULL
    char *no_sites;     // why it has no call sites though they were asked for, or NULL
    char *hooks;        // what it says of the hooks of a linked-in allocator, NULL: nothing
    struct ht_raw_header header;
    struct ht_heap_share share;
    uint64_t cpu_ns;  // of this program, as far as samples show it; 0: unknown
    bool started;     // of the process that was started
    double rank;      // process_rank
};

struct found_logs {
    struct found_log *log;  // by process_rank
    size_t count, room;
    uint64_t calls;
    size_t processes;
    bool of_program;    // one of them is of the program itself, not of a child
    const char *hooks;  // what the program's log says of the hooks of its linked-in allocator, NULL: nothing
    bool to_the_end;    // one of them holds the program as it was when it ended
};

void found_logs_of_run(struct found_logs *found, const struct recorded_run *run, const struct ending *ending);
// Those in a folder, of the newest run that has logs there, left as they are. They do not say how the program ended, because
// nobody knows. False with errno where the folder cannot be read.
bool found_logs_in(struct found_logs *found, const char *folder);
// CPU time that recording took: of calls at least, and of all else at most. 0 where it is not known.
struct recording_cost {
    double calls_ns, rest_ns;
};
struct recording_cost found_logs_cost(const struct found_logs *found, const struct ending *ending);

void found_logs_free(struct found_logs *found);

#endif
