// SPDX-License-Identifier: Apache-2.0
// The runs of --snapshots: each allocator's memory pass, its timed pass, for what calls cost along the trace, and the
// memory pass once more with snapshots of its heap.
#ifndef HEAPTAPE_SNAPSHOT_RUNS_H
#define HEAPTAPE_SNAPSHOT_RUNS_H

#include "runner.h"

// Writes FOLDER/NAME.snapshots for each allocator (docs/reference/snapshots.md), and says on stderr what went wrong.
// Returns how many runs failed.
size_t ht_snapshot_all(struct ht_runner *runner);

#endif
