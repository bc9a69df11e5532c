// SPDX-License-Identifier: Apache-2.0
// Writes a trace that was opened as an extension into a file of its own.
#ifndef HEAPTAPE_WRITE_EXTENDED_H
#define HEAPTAPE_WRITE_EXTENDED_H

#include <stdbool.h>

#include "trace_reader.h"

struct extended_totals {
    uint64_t events, file_bytes, end_live_bytes, peak_live_bytes;
};

// quiet: without progress. Returns 0, or -1 with error: then there is no file.
int write_extended(struct ht_trace_reader *reader, const char *output, bool quiet,
                   struct extended_totals *totals, struct ht_error *error);

#endif
