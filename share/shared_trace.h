// SPDX-License-Identifier: Apache-2.0
// A copy of a trace that names nothing and nobody: the events and figures alone, written anew. Sections and columns that are
// not known here have no way into it.
#ifndef HEAPTAPE_SHARED_TRACE_H
#define HEAPTAPE_SHARED_TRACE_H

#include <jansson.h>

#include "coarsening.h"
#include "merge_result.h"

struct shared_trace {
    struct ht_trace_reader *reader;
    struct coarsening coarsening;
    bool quiet;  // no progress
    // What the copy has, once it is written:
    json_t *context;  // to be dropped by the caller
    struct merge_totals totals;
    uint64_t duration_ns, samples, large_blocks, file_bytes;
    uint64_t unknown_sections;  // of the other trace
};

// Returns 0, or -1 with error: then there is no file.
int shared_trace_write(struct shared_trace *shared, const char *output, struct ht_error *error);

#endif
