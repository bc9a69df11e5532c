// SPDX-License-Identifier: Apache-2.0
// A trace that is continued by repetitions of a stretch, made while it is read: it takes the memory of what is live, however long
// it is.
#ifndef HEAPTAPE_LOOPED_TRACE_H
#define HEAPTAPE_LOOPED_TRACE_H

#include "loop_plan.h"
#include "trace_facts.h"

// Takes reader, plan, facts and the texts of context and totals, which are freed with the new reader. NULL with error: then
// nothing was taken. path: of the trace, for messages.
struct ht_trace_reader *looped_trace_open(struct ht_trace_reader *reader, const char *path,
                                          struct loop_plan *plan, struct ht_trace_facts *facts, char *context,
                                          char *totals, struct ht_error *error);

#endif
