// SPDX-License-Identifier: Apache-2.0
// Replays under a limit of memory: which allocators come to the trace's end, where the others die, and how low the limit
// can be.
#ifndef HEAPTAPE_LIMIT_RUNS_H
#define HEAPTAPE_LIMIT_RUNS_H

#include "runner.h"

// Each allocator; prints a table, or with --pass limit --json an object. Out of memory is an answer. Returns how many
// allocators there is no answer of.
size_t ht_limit_all(struct ht_runner *runner);

#endif
