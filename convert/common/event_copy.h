// SPDX-License-Identifier: Apache-2.0
// Copies the events of a trace into another one that has the same blocks and threads, and counts them anew.
#ifndef HEAPTAPE_EVENT_COPY_H
#define HEAPTAPE_EVENT_COPY_H

#include <jansson.h>

#include "merge_result.h"
#include "trace_facts.h"

struct event_copy {
    struct ht_trace_reader *reader;
    struct ht_trace_writer *writer;
    const struct ht_trace_facts *facts;
    // What is to be written of a section in place of its events; NULL: the same.
    void (*change)(void *context, struct ht_events *events);
    void *context;
    bool quiet;                  // no progress
    struct merge_totals totals;  // of what was written; what its events don't have is 0
};

// Returns 0, or -1 with error: a damaged trace, or one whose calls contradict each other. What fails to be written is
// reported by ht_trace_finish.
int event_copy_run(struct event_copy *copy, struct ht_error *error);

// Puts samples and residency, as the facts have them.
void event_copy_put_facts(const struct event_copy *copy);

// Puts what was counted in place of what the totals of the other trace have.
void event_copy_put_totals(const struct event_copy *copy, json_t *totals);

#endif
