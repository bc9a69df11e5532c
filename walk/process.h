// SPDX-License-Identifier: Apache-2.0
// A running process as the kernel shows it: opened with the rights that we have, which are then given up.
#ifndef HEAPTAPE_PROCESS_H
#define HEAPTAPE_PROCESS_H

#include <sys/types.h>

#include "space.h"

struct process {
    pid_t pid;
    struct space space;
    char command[4096];        // arguments with blanks between
    int folder_fd, status_fd;  // folder_fd: of /proc/PID, which stays this process's
    uint64_t up_s;
    struct process_thread *stopped;
    size_t stopped_count, stopped_room;
};

struct process_thread {
    pid_t thread;
    int signal;  // that it was about to get, 0: none
};

struct process_memory {
    uint64_t rss_bytes, anonymous_bytes, file_bytes, shared_bytes, swapped_bytes;
};

// 0 or -1 with error: one line that names the switch where the kernel refuses.
int process_open(struct process *process, pid_t pid, struct ht_error *error);
// What /proc/PID/status says now.
struct process_memory process_memory_now(const struct process *process);
// Whether it is still what was opened: it may have ended meanwhile, or run another program.
bool process_is_there(const struct process *process);
void process_close(struct process *process);

// Stops all threads, until process_go_on or our end. 0 or -1 with error: a thread that waits for what cannot be interrupted
// is not waited for.
int process_stop(struct process *process, struct ht_error *error);
void process_go_on(struct process *process);

// Files that whoever started us left open, but the standard ones and that one (-1: none).
void rights_close_all_but(int kept_fd);
// The user and all capabilities: what is open can still be used. 0 or -1 with error.
int rights_drop_user(struct ht_error *error);
// Memory and time are bounded in proportion to what is walked, and to what of that is in a heap, in RAM or not: SIGXCPU or
// SIGALRM then ends us. 0 or -1 with error.
int rights_limit(uint64_t walked_bytes, uint64_t heap_bytes, struct ht_error *error);
// From here on nothing can be opened. 0 or -1 with error.
int rights_drop_rest(struct ht_error *error);

#endif
