// SPDX-License-Identifier: Apache-2.0
// heaptape allocators add: from a stranger's file to a name that --alloc takes.
#ifndef HEAPTAPE_ADDING_H
#define HEAPTAPE_ADDING_H

#include <stdbool.h>

// name: NAME@VERSION that it is to have, NULL: as it is. build: the file has sources, which are compiled. Says what it does, and
// returns the exit status.
int adding(const char *path, const char *name, bool build);

#endif
