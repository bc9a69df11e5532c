// SPDX-License-Identifier: Apache-2.0
// Work on a stranger's bytes in a process of its own, which may take so much memory and time and no more. What goes wrong there
// ends that process alone.
#ifndef HEAPTAPE_CONFINED_H
#define HEAPTAPE_CONFINED_H

#include <stddef.h>

#include "error.h"

// Memory, of zeros, that the work and its caller share; NULL if there is none. It goes with the process.
void *confined_memory(size_t bytes);

// Returns what the work returns, or -1 with an error if it did not come to its end. context and error: in such memory. path: for
// messages.
int confined_run(int (*work)(void *context, struct ht_error *error), void *context, const char *path,
                 struct ht_error *error);

#endif
