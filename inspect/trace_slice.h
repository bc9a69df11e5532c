// SPDX-License-Identifier: Apache-2.0
// Cuts a part out of a trace: what is live when it begins is inherited, everything is numbered anew.
//
// With threads left out, a block belongs to the slice from the moment that a kept thread allocates or
// reallocates it until it is freed, or a left-out thread reallocates it. A left-out thread's free of such a
// block becomes a drop; a kept thread's free or realloc of any other block is foreign.
#ifndef HEAPTAPE_TRACE_SLICE_H
#define HEAPTAPE_TRACE_SLICE_H

#include "left_out_blocks.h"
#include "merge.h"
#include "trace_range.h"

struct slice_result {
    struct merge_totals totals;
    struct ht_thread *threads;        // totals.threads of them, to be freed by the caller
    uint32_t *old_number;             // of each of them in the old trace; likewise
    uint64_t first_event, end_event;  // what was cut out, in the old trace's numbers
    uint64_t inherits_event;  // the first that is kept: what was live then is what the slice begins with
    uint64_t base_ns;         // the old time that is 0 in the slice
    bool whole_end;           // the slice ends where the trace does
};

// Called now and then with the events read so far and those in all.
struct slice_progress {
    void (*call)(void *context, uint64_t events_done, uint64_t events_total);
    void *context;
};

struct slice_request {
    const char *path;
    struct trace_range *range;
    const struct left_out_blocks *left_out;
    bool of_prelude;  // without call sites, and no large block is filled after this
    uint64_t prelude_end_ns;
    struct slice_progress progress;
};

// Writes the slice's events, samples and residency; the context has been written. A slice without a call is for the caller to
// refuse. Returns 0 or -1 with error.
int trace_slice(struct ht_trace_reader *reader, const struct slice_request *request,
                struct ht_trace_writer *writer, struct slice_result *result, struct ht_error *error);
void slice_result_free(struct slice_result *result);

#endif
