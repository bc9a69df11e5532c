// SPDX-License-Identifier: Apache-2.0
// How long a program runs between two calls.
#ifndef HEAPTAPE_CALL_GAPS_H
#define HEAPTAPE_CALL_GAPS_H

#include "trace_reader.h"

// The median time from one call of a thread to its next, from the trace's times: malloc's own time and the recorder's are
// in it. 0 where no thread calls twice. Returns 0, or -1 with an error.
int ht_median_gap_ns(struct ht_trace_reader *reader, double *gap_ns, struct ht_error *error);

#endif
