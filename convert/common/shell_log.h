// SPDX-License-Identifier: Apache-2.0
// A shell that only starts the program that was meant: its own log is hardly ever the wanted one.
#ifndef HEAPTAPE_SHELL_LOG_H
#define HEAPTAPE_SHELL_LOG_H

#include <stdbool.h>

#include "raw_reader.h"

// The name of the shell that the log is of, or NULL if it is of another program.
const char *shell_log_name(const struct ht_raw_log *log);

// By which the logs of a run are ordered, the largest first: its calls; of a shell a tenth
// of them. The scripts around a short program, such as pyenv's, make as many calls as it does.
uint64_t shell_log_rank(bool shell, uint64_t calls);

// Says on stderr which log of the same run, beside this one, has most of the calls, if this one is of a
// shell.
void shell_log_say_better(const char *path);

#endif
