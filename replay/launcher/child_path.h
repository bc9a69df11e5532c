// SPDX-License-Identifier: Apache-2.0
// Which file a path means to a child.
#ifndef HEAPTAPE_CHILD_PATH_H
#define HEAPTAPE_CHILD_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

// The file's one path without links, dots and self, such as /proc/PID/status for /proc/self/status; folder as openat takes it,
// of this thread. False: there is none, or it cannot be reached.
bool ht_child_path(pid_t thread, int folder, const char *path, char real[PATH_MAX]);

#endif
