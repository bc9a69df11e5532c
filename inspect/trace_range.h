// SPDX-License-Identifier: Apache-2.0
// Which part of a trace a verb is asked for: from and to by event or time, and by thread.
#ifndef HEAPTAPE_TRACE_RANGE_H
#define HEAPTAPE_TRACE_RANGE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace_reader.h"

struct trace_range {
    uint64_t from_event, to_event;  // numbers as in the trace; to is one past the last
    uint64_t from_ns, to_ns;
    const char *threads;  // as given, or NULL for all
    // Filled by trace_range_know_threads where threads are given: whether each thread is wanted.
    bool *wanted;
    uint32_t wanted_count;
};

// The options --from-time, --to-time, --from-event, --to-event and --threads, for use as a verb's argp child;
// its input is a struct trace_range, which it first sets to all of the trace.
extern const struct argp trace_range_argp;

// The error of that.
int trace_range_no_thread(uint32_t thread, uint32_t threads_count, const char *path, struct ht_error *error);

// Finds out which of the trace's threads are wanted. A thread that the trace does not have is an error.
// Returns 0 or -1 with error.
int trace_range_know_threads(struct trace_range *range, uint32_t threads_count, const char *path,
                             struct ht_error *error);
void trace_range_free(struct trace_range *range);

static inline bool trace_range_wants(const struct trace_range *range, uint32_t thread) {
    return !range->wanted || (thread < range->wanted_count && range->wanted[thread]);
}
static inline bool trace_range_begun(const struct trace_range *range, uint64_t event, uint64_t time_ns) {
    return event >= range->from_event && time_ns >= range->from_ns;
}
static inline bool trace_range_over(const struct trace_range *range, uint64_t event, uint64_t time_ns) {
    return event >= range->to_event || time_ns >= range->to_ns;
}

// Judged by the index alone, without decoding: is all of section i behind the range; and is all of it before?
bool trace_range_section_over(const struct trace_range *range, const struct ht_trace_reader *reader,
                              size_t i);
bool trace_range_section_before(const struct trace_range *range, const struct ht_trace_reader *reader,
                                size_t i);

#endif
