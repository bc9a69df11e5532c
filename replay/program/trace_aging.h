// SPDX-License-Identifier: Apache-2.0
// What a used heap is made of, for a trace: sizes of its live blocks, and how many of them.
#ifndef HEAPTAPE_TRACE_AGING_H
#define HEAPTAPE_TRACE_AGING_H

#include "replay_job.h"
#include "trace_reader.h"

// occupancy: the share of the blocks that is kept, above 0 and below 1. multiple: how many blocks, in multiples of the most
// that `copies` of the trace have live. Reads the whole trace, of which a replay form has been built: no slot or size in it is
// out of reach. Returns 0, or -1 with error.
int ht_aging_of_trace(struct ht_trace_reader *reader, double occupancy, double multiple, uint32_t copies,
                      struct ht_aging *aging, struct ht_error *error);

#endif
