// SPDX-License-Identifier: Apache-2.0
// What is live at the beginning and at the end of a stretch.
#ifndef HEAPTAPE_STRETCH_BLOCKS_H
#define HEAPTAPE_STRETCH_BLOCKS_H

#include "block_matching.h"
#include "loop_plan.h"
#include "trace_reader.h"

// Fills the lists of the matching, and what plan->threads count of the trace up to the stretch's end. Returns 0, or -1 with error.
int stretch_blocks_read(struct ht_trace_reader *reader, const char *path, struct loop_plan *plan,
                        struct matching *matching, struct ht_error *error);

#endif
