// SPDX-License-Identifier: Apache-2.0
// One pass from a raw log to a trace: merges the streams by time, repairs their order, turns addresses into
// slots. merge_records.c takes one record after another; heap_model.c knows what is live, slots.c numbers it.
//
// Stamps alone are not an exact order: an allocation of an address may be stamped before the free that made
// it possible, and a free before its allocation, because the counter is read without a fence. In program
// order the other record was already written, so it stands a little further in another stream: it is looked
// for there, and the stream that is too early waits until it has been delivered. Where it is not found, the
// record is taken at once: a foreign free (allocated before recording began) or an anomaly (a free that was
// not seen).
#ifndef HEAPTAPE_MERGE_H
#define HEAPTAPE_MERGE_H

#include "live_blocks.h"
#include "merge_result.h"
#include "raw_reader.h"
#include "streams.h"
#include "trace_writer.h"

// Writes all events, samples and residency of the log. inherited: the blocks that were live when it began.
// Returns 0 or -1 with error.
int merge_log(const struct ht_raw_log *log, const struct live_blocks *inherited,
              struct ht_trace_writer *writer, struct merge_result *result,
              const struct merge_progress *progress, struct ht_error *error);

// Follows the log to the point where a child was forked from its process, and writes nothing: `live` are the
// blocks that the child inherited, to be freed by the caller. Returns 0 or -1 with error.
int merge_to_fork(const struct ht_raw_log *log, const struct live_blocks *inherited,
                  const struct fork_point *fork, struct live_blocks *live, struct ht_raw_damage *damage,
                  const struct merge_progress *progress, struct ht_error *error);

// Follows the whole log for the observer, and writes nothing. Returns 0 or -1 with error.
int merge_observe(const struct ht_raw_log *log, const struct live_blocks *inherited,
                  const struct merge_observer *observer, struct ht_raw_damage *damage,
                  const struct merge_progress *progress, struct ht_error *error);

#endif
