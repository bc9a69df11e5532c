// SPDX-License-Identifier: Apache-2.0
// The threads of a stretch that is repeated, and those of the extended trace.
#ifndef HEAPTAPE_LOOP_THREADS_H
#define HEAPTAPE_LOOP_THREADS_H

#include "loop_plan.h"
#include "trace_facts.h"

// Finds out what becomes of each thread, and who plays whom. plan->threads[].head_calls are known. False for want of memory.
bool loop_threads_plan(struct loop_plan *plan, const struct ht_trace_facts *facts);

// Does the thread end in each repetition? So do those that begin in it and play none in the next.
static inline bool loop_thread_ends(const struct loop_thread *thread) {
    return thread->kind == LOOP_THREAD_INSIDE || thread->kind == LOOP_THREAD_LEAVES ||
           (thread->kind == LOOP_THREAD_ARRIVES && thread->plays == MATCH_NONE);
}

// The threads of the extended trace, *count of them, to be freed by the caller. NULL for want of memory, or where there are more
// than a trace can have.
struct ht_thread *loop_threads_extended(const struct loop_plan *plan, const struct ht_trace_facts *facts,
                                        size_t *count);

#endif
