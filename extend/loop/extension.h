// SPDX-License-Identifier: Apache-2.0
// A recording continued to a later time: finds the steady stretch, plans its repetitions, and opens what comes of it as a trace.
#ifndef HEAPTAPE_EXTENSION_H
#define HEAPTAPE_EXTENSION_H

#include <jansson.h>
#include <stdbool.h>

#include "trace_reader.h"

struct extension_request {
    uint64_t to_ns;
    uint64_t from_ns, until_ns;  // the stretch; UINT64_MAX, both: the longest steady one
};

// Opens the extension of a trace, which is closed with it. NULL with error: then the trace is as it was. Where the trace does not
// say how it goes on, error->status is HT_EXIT_UNDECIDED. *extended (may be NULL) becomes what the context says of it.
struct ht_trace_reader *extension_open(struct ht_trace_reader *reader, const char *path,
                                       const struct extension_request *request, json_t **extended,
                                       struct ht_error *error);

struct extended_totals {
    uint64_t events, file_bytes, end_live_bytes, peak_live_bytes;
};

// Writes a trace that was opened as an extension into a file of its own. quiet: without progress. Returns 0, or -1 with error:
// then there is no file.
int write_extended(struct ht_trace_reader *reader, const char *output, bool quiet,
                   struct extended_totals *totals, struct ht_error *error);

#endif
