// SPDX-License-Identifier: Apache-2.0
// Samples of the program's memory between its calls. The folder has a word for each thing
// that is measured:
//   memory_sample   RssAnon along the run: a record, when enough was allocated or time has passed
//   own_memory      the part of it that malloc did not give: counted with a sample. And where the rest lies, so that a
//                   reader can tell by its blocks what of it is heap
//   own_ranges      the ranges that the program mapped for itself
//   large_blocks    pages of one large block that are resident: at its birth, with samples, at its end
//   freed_probe     is a freed block in the caches? A count in the header, now and then before a free
//   process_memory  the kernel's files that all of them read
#ifndef HEAPTAPE_MEMORY_SAMPLE_H
#define HEAPTAPE_MEMORY_SAMPLE_H

#include "sparse_stamps.h"
#include "state.h"

// A thread that allocated enough for a sample so soon after the last that it has to wait has this budget, or less.
#define SAMPLE_WAITS (INT64_MIN / 2)
// How many calls of a process with one thread do not even ask whether the wait is over.
extern HIDDEN uint32_t memory_sample_skips;

// Is a call to ask for a sample, with a stamp, because of what the thread has allocated?
static inline bool memory_sample_is_due(struct thread_state *t) {
    enum { SKIPS = 15 };
    if (t->sample_budget_bytes >= 0) return false;
    if (t->sample_budget_bytes > SAMPLE_WAITS) {
        t->sample_due_stamp = 0;
        return true;
    }
    if (memory_sample_skips && is_within_tick()) {
        memory_sample_skips--;
        return false;
    }
    memory_sample_skips = SKIPS;
    return true;
}

HIDDEN void memory_sample(struct thread_state *t, uint64_t stamp, bool final);
// A block is about to go of which so much was touched since it was allocated: no sample may have seen it. Its end has that
// stamp, which is from before this; 0: one that is still to be taken.
HIDDEN void memory_sample_before_free(struct thread_state *t, uint64_t touched_bytes, uint64_t end_stamp);

#endif
