// SPDX-License-Identifier: Apache-2.0
// Which of the processes of a recorded run is the one that matters.
#ifndef HEAPTAPE_PROCESS_RANK_H
#define HEAPTAPE_PROCESS_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "raw_reader.h"

// What a program did in a process. started: the process is the one that was started, not a child of it.
struct process_use {
    uint64_t calls, cpu_ns, anon_bytes;
    bool shell, started;
};

// A shell that only starts the program that was meant counts a tenth.
enum { SHELL_TIMES_MORE = 10 };

// The largest of each figure.
void process_use_most(struct process_use *most, const struct process_use *use);

// By which the logs of a run are ordered, the largest first: the share of the largest CPU time, and of the largest RssAnon. Calls
// decide where both are unknown. The program that was started comes first unless a child clearly used more than it.
double process_rank(const struct process_use *use, const struct process_use *most);

// ---- a shell that only starts the program that was meant: its own log is hardly ever the wanted one ----

// The shell's name, or NULL if this is another program's path.
const char *shell_name(const char *path);
// The name of the shell that the log is of, or NULL if it is of another program.
const char *shell_log_name(const struct ht_raw_log *log);

// Says on stderr which log of the same run, beside this one, has most of the calls, if this one is of a
// shell.
void shell_log_say_better(const char *path);

#endif
