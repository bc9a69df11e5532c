// SPDX-License-Identifier: Apache-2.0
// What a merge finds: its totals, and the callback for its progress.
#ifndef HEAPTAPE_MERGE_RESULT_H
#define HEAPTAPE_MERGE_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "control_calls.h"
#include "heap_share.h"
#include "raw_reader.h"
#include "trace_writer.h"

struct stream;

struct merge_totals {
    uint64_t events, records;
    uint64_t ops[HT_FUNCTIONS];
    uint64_t threads, slots;
    uint64_t peak_live_bytes, peak_live_objects, end_live_bytes, end_live_objects;
    uint64_t inherited_objects, inherited_bytes;
    uint64_t repairs, anomalies, foreign_frees, foreign_queries, unfinished, failed_calls;
    uint64_t duration_ns;
    uint64_t rss_peak_bytes, own_peak_bytes, heap_rss_peak_bytes, cpu_ns;
    uint64_t heap_rss_low_bytes, heap_rss_high_bytes;  // what that peak can have been
    // allocated_bytes counts all blocks, inherited ones too; heap_rss_first_bytes is RssAnon less the program's own at the
    // first sample, where the program may have had it from malloc before the recording began: else 0.
    uint64_t allocated_bytes, samples, heap_rss_first_bytes;
    bool began_late;  // not with the program: it may have had memory from malloc before
    struct ht_raw_damage damage;
    struct ht_control_counts controls;
};

static inline bool merge_heap_is_unknown(const struct merge_totals *totals) {
    return ht_heap_is_unknown(totals->heap_rss_low_bytes, totals->heap_rss_high_bytes);
}

// An unknown heap explains what it can have been at most.
static inline struct ht_heap_share merge_heap_share(const struct merge_totals *totals) {
    return (struct ht_heap_share){.anon_bytes = totals->rss_peak_bytes,
                                  .explained_bytes = ht_heap_explained(totals->heap_rss_first_bytes,
                                                                       merge_heap_is_unknown(totals)
                                                                           ? totals->heap_rss_high_bytes
                                                                           : totals->heap_rss_peak_bytes,
                                                                       totals->allocated_bytes),
                                  .own_bytes = totals->own_peak_bytes};
}

struct merge_result {
    struct merge_totals totals;
    struct ht_thread *threads;   // totals.threads of them, to be freed by the caller
    struct ht_site_table sites;  // to be freed by the caller
    bool no_sites;               // there was not enough memory for them
};

// Called now and then (call may be NULL); bytes of the log done and in all.
struct merge_progress {
    void (*call)(void *context, uint64_t bytes_done, uint64_t bytes_total, uint64_t events);
    void *context;
};

// Sees every record that the merge has applied, in the order that it finds.
struct merge_observed {
    const struct ht_raw_record *record;
    const struct stream *stream;
    uint32_t input;   // the stream's number
    uint32_t thread;  // as in the trace
    // The record is a realloc's first half or a free, whose block ended in the log as another call's, which overtook it.
    bool unseen;
    uint64_t time_ns;
};
struct merge_observer {
    void (*call)(void *context, const struct merge_observed *observed);
    // The input's realloc never ends: its old block, if it had one, is there again.
    void (*unfinished)(void *context, uint32_t input);
    void *context;
};

#endif
