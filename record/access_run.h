// SPDX-License-Identifier: Apache-2.0
// heaptape record --accesses: calls and data accesses of one run, by simulation instead of the shim.
#ifndef HEAPTAPE_ACCESS_RUN_H
#define HEAPTAPE_ACCESS_RUN_H

#include <stdbool.h>

#include "record_talk.h"

// Runs the command; its accesses files go into the directory, whole or sampled. Returns the exit status: the program's, or failed
// with a line on stderr.
int access_run(char **command, const char *directory, bool sampled, const struct record_talk *talk,
               int failed);

#endif
