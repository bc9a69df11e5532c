// One pass from a raw log to a trace: merges the streams by time, repairs their order, turns addresses into
// slots.
//
// Stamps alone are not an exact order: an allocation of an address may be stamped before the free that made
// it possible, and a free before its allocation, because the counter is read without a fence. In program
// order the other record was already written, so the stream that is too early waits until the others have
// delivered it, within a bounded window. What no wait explains is a foreign free (allocated before recording
// began) or an anomaly (a free that was not seen).
#ifndef HEAPTAPE_MERGE_H
#define HEAPTAPE_MERGE_H

#include <stdint.h>

#include "fork_cut.h"
#include "heap_share.h"
#include "live_blocks.h"
#include "raw_reader.h"
#include "trace_writer.h"

struct stream;

struct merge_totals {
    uint64_t events, records;
    uint64_t ops[HT_FUNCTIONS];
    uint64_t threads, slots;
    uint64_t peak_live_bytes, peak_live_objects, end_live_bytes, end_live_objects;
    uint64_t inherited_objects, inherited_bytes;
    uint64_t repairs, anomalies, foreign_frees, unfinished, failed_calls;
    uint64_t duration_ns;
    uint64_t rss_peak_bytes, own_peak_bytes, heap_rss_peak_bytes, cpu_ns;
    // Of all blocks, inherited ones too; and RssAnon less the program's own at the first sample, where the program
    // may have had it from malloc before the recording began: else 0.
    uint64_t allocated_bytes, samples, heap_rss_first_bytes;
    bool began_late;  // not with the program: it may have had memory from malloc before
};

static inline struct ht_heap_share merge_heap_share(const struct merge_totals *totals) {
    return (struct ht_heap_share){.anon_bytes = totals->rss_peak_bytes,
                                  .explained_bytes = ht_heap_explained(totals->heap_rss_first_bytes,
                                                                       totals->heap_rss_peak_bytes,
                                                                       totals->allocated_bytes),
                                  .own_bytes = totals->own_peak_bytes};
}

struct merge_result {
    struct merge_totals totals;
    struct ht_thread *threads;  // totals.threads of them, to be freed by the caller
};

// Called now and then (call may be NULL); bytes of the log done and in all.
struct merge_progress {
    void (*call)(void *context, uint64_t bytes_done, uint64_t bytes_total, uint64_t events);
    void *context;
};

// Writes all events, samples and residency of the log. inherited: the blocks that were live when it began.
// Returns 0 or -1 with error.
int merge_log(const struct ht_raw_log *log, const struct live_blocks *inherited,
              struct ht_trace_writer *writer, struct merge_result *result,
              const struct merge_progress *progress, struct ht_error *error);

// Follows the log to the point where a child was forked from its process, and writes nothing: `live` are the
// blocks that the child inherited, to be freed by the caller. Returns 0 or -1 with error.
int merge_to_fork(const struct ht_raw_log *log, const struct live_blocks *inherited,
                  const struct fork_point *fork, struct live_blocks *live,
                  const struct merge_progress *progress, struct ht_error *error);

// Sees every record that the merge has applied, in the order that it finds.
struct merge_observed {
    const struct ht_raw_record *record;
    const struct stream *stream;
    uint32_t lane;    // the stream's number
    uint32_t thread;  // as in the trace
    uint64_t time_ns;
};
struct merge_observer {
    void (*call)(void *context, const struct merge_observed *observed);
    void *context;
};

// Follows the whole log for the observer, and writes nothing. Returns 0 or -1 with error.
int merge_observe(const struct ht_raw_log *log, const struct live_blocks *inherited,
                  const struct merge_observer *observer, const struct merge_progress *progress,
                  struct ht_error *error);

#endif
