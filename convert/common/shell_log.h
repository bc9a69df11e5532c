// SPDX-License-Identifier: Apache-2.0
// A shell that only starts the program that was meant: its own log is hardly ever the wanted one.
#ifndef HEAPTAPE_SHELL_LOG_H
#define HEAPTAPE_SHELL_LOG_H

#include "raw_reader.h"

// The name of the shell that the log is of, or NULL if it is of another program.
const char *shell_log_name(const struct ht_raw_log *log);

// Says on stderr which log of the same run, beside this one, has most of the calls, if this one is of a
// shell.
void shell_log_say_better(const char *path);

#endif
