// SPDX-License-Identifier: Apache-2.0
// The log that a running process writes, whichever its namespaces.
#ifndef HEAPTAPE_PROCESS_LOG_H
#define HEAPTAPE_PROCESS_LOG_H

#include <limits.h>
#include <sys/types.h>

#include "raw_reader.h"

struct process_log {
    struct ht_raw_log log;
    char name[PATH_MAX];  // as the process sees it
};

// Opens the newest log that the process itself writes. What is opened is the very file that it has mapped: in
// another mount namespace another file may have that name. 0, or -1 with errno: ENOENT where there is no such
// process or no log in it; ESTALE where its log was removed; EXDEV where it cannot be reached from here; or -1
// with errno 0 and error where the file is no sound log.
int process_log_open(struct process_log *found, pid_t pid, struct ht_error *error);
void process_log_close(struct process_log *found);

#endif
