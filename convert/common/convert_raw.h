// SPDX-License-Identifier: Apache-2.0
// A raw log becomes a trace, with what it inherited from its parent's log.
#ifndef HEAPTAPE_CONVERT_RAW_H
#define HEAPTAPE_CONVERT_RAW_H

#include "convert_request.h"
#include "merge.h"

// Returns 0 or -1 with error.
int convert_raw(const struct convert_request *request, struct ht_error *error);

// The pieces that a follower needs too.
void convert_warn_about(const struct ht_raw_log *log);
// Finishes the trace, or gives it up where it has no call, and prints the result. Takes the result's
// threads and the writer. Returns 0 or -1 with error.
int convert_finish(const struct convert_request *request, const struct ht_raw_log *log,
                   struct ht_trace_writer *writer, struct merge_result *result, double started_s,
                   uint64_t *file_bytes, struct ht_error *error);

#endif
