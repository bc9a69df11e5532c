// SPDX-License-Identifier: Apache-2.0
// What a trace has besides its events: samples of memory and CPU time, when large blocks were resident, threads.
#ifndef HEAPTAPE_TRACE_FACTS_H
#define HEAPTAPE_TRACE_FACTS_H

#include "trace_reader.h"

struct ht_sample {
    uint64_t time_ns, event, rss_anon_bytes, own_rss_bytes, cpu_ns;
    bool own_fresh;
};

// Anonymous memory without the program's own mappings, stacks and data.
static inline uint64_t ht_sample_heap_bytes(const struct ht_sample *sample) {
    uint64_t own = sample->own_rss_bytes;
    return sample->rss_anon_bytes > own ? sample->rss_anon_bytes - own : 0;
}

struct ht_residency {
    uint64_t event;  // the birth it belongs to
    uint64_t pages_before, pages_after;
    // Of those after: so many the program had no time to write, and they were there before.
    uint64_t pages_spared;
};

// By then so many pages of the block had been seen resident: its first ones, or, where run_pages is not 0, those of several
// runs, of which each has a step of the same event, time and pages.
struct ht_residency_step {
    uint64_t event;  // the birth it belongs to
    uint64_t time_ns, pages;
    uint64_t first_page, run_pages;
};

struct ht_thread {
    uint32_t tid;
    uint64_t first_event, start_ns, calls, end_ns;
    bool ended;
    char name[17];
};

// The trace's rare facts, read from the sections around the events.
struct ht_trace_facts {
    struct ht_sample *samples;
    size_t samples_count;  // in time order
    struct ht_residency *residency;
    size_t residency_count;  // sorted by event
    struct ht_residency_step *steps;
    size_t steps_count;  // sorted by event, those of one by time, those of one time by page
    struct ht_thread *threads;
    size_t threads_count;  // derived from the events if cut short
};

// Samples, residency and its steps, and threads of the whole trace; free with ht_trace_facts_free.
int ht_trace_facts(struct ht_trace_reader *reader, struct ht_trace_facts *facts, struct ht_error *error);
void ht_trace_facts_free(struct ht_trace_facts *facts);

// The process's CPU time at a moment: between two samples it is taken to have grown evenly.
double ht_trace_cpu_ns_at(const struct ht_trace_facts *facts, uint64_t time_ns);

// Who touches memory takes CPU time: before a pause, not all through it. Until when memory that is touched between two
// moments was, if it was from the first one on.
uint64_t ht_trace_busy_until(const struct ht_trace_facts *facts, uint64_t from_ns, uint64_t until_ns);

#endif
