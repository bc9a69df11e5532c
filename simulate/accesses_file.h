// SPDX-License-Identifier: Apache-2.0
// Reads an accesses file as a whole before it is simulated.
#ifndef HEAPTAPE_ACCESSES_FILE_H
#define HEAPTAPE_ACCESSES_FILE_H

#include "error.h"

// That it is one, complete, with so many calls that allocate: those of the trace that its accesses are to go with.
// -1 with an error that has the exit status of bad input.
int ht_accesses_check(const char *path, uint64_t allocations, struct ht_error *error);

#endif
