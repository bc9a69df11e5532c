// SPDX-License-Identifier: Apache-2.0
// What the trace has on the recorded program itself, to set beside the replays.
#ifndef HEAPTAPE_RECORDED_PROGRAM_H
#define HEAPTAPE_RECORDED_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "built_form.h"
#include "context_words.h"
#include "heap_share.h"
#include "inner_allocators.h"
#include "knob_choice.h"
#include "trace_facts.h"
#include "trace_json.h"

// The recorded program's memory along the trace: its heap; and what it held beside it, its own mappings, stacks and
// data. Added to the heap under another allocator these give the process's anonymous memory, as ps and a container's
// limit count it.
struct ht_own_memory {
    uint64_t *time_ns, *bytes, *heap_bytes;
    size_t count;  // 0: not known
};

// Returns false without memory.
bool ht_own_memory_take(const struct ht_trace_facts *facts, struct ht_own_memory *own);
void ht_own_memory_free(struct ht_own_memory *own);

// Its bytes where RSS is read: a value for each of the form's samples, between two of the recorder's by time. NULL
// where they are not known, or without memory.
uint64_t *ht_own_memory_at(const struct ht_own_memory *own, const struct ht_built_form *built);

// What heaptape extend made of the recording: it ends at until_ns, all later time repeats what lies between.
struct ht_extended_part {
    uint64_t from_ns, until_ns, to_ns;
    bool knows_growth, grows;  // live bytes, from repetition to repetition
    // NaN where the trace does not know.
    double live_to_bytes, live_slope_bytes_per_hour;
    uint64_t thread_lives_ns;          // the median of the threads that end; 0: none does
    char words[EXTENDED_WORDS_BYTES];  // empty: nothing
};

struct ht_recorded_program {
    char command[256], allocator[64], allocator_version[64];
    char inside[HT_INNER_ALLOCATORS_BYTES];  // the words about libraries with an allocator of their own
    bool linked;                             // that allocator is part of the program
    struct ht_recorded_settings settings;    // of it
    uint32_t pid;
    uint32_t page_bytes;  // 0: not known
    bool forked;          // it shares pages with its parent and other children, which no figure counts
    uint64_t end_ns;      // when it ended, in trace time: not before its last call
    // NaN where the trace does not know.
    bool has_samples;                        // of its memory, as an imported trace has not
    double rss_peak_bytes;                   // RssAnon
    double heap_peak_bytes;                  // of it, without the program's own data and bss
    uint64_t live_peak_bytes;                // of its blocks; 0: not known
    double heap_low_bytes, heap_high_bytes;  // where it is not known, what it can have been; else NaN
    double cpu_ns;
    // Of the blocks that it freed, the share that it had just used: 1 where the trace does not know, because
    // that is what nearly all programs come close to.
    double freed_warm_share;
    char thp[64];  // mode of transparent huge pages, empty if not known
    // What the recording missed, 0 where it does not know.
    uint64_t lost_calls, anomalies, foreign_frees, repairs;
    char damage[TRACE_DAMAGE_BYTES];  // empty: none
    bool was_checked;                 // it ran once more without the recorder
    struct run_check check;
    bool sliced;          // its first blocks were allocated before the trace begins
    const char *prelude;  // what the trace has of that: "whole", "part" or "none"; NULL: nothing is missing
    bool has_aligned;     // calls of aligned_alloc and memalign, or that is not known
    struct ht_extended_part extended;
    struct ht_heap_share share;  // of one copy, however many are replayed
    struct ht_own_memory own;    // along the trace; unknown where several copies are replayed
};

int ht_recorded_program_read(struct ht_trace_reader *reader, struct ht_recorded_program *program,
                             struct ht_error *error);

// Whether the allocator of that name and version is the one that served it. Of one that is part of the program, another
// version may be another allocator; one that was loaded is the user's to choose again.
bool ht_recorded_served(const struct ht_recorded_program *program, const char *name, const char *version);

// Without the words before: of "gperftools 2.10" that is 2.10.
const char *ht_version_number(const char *version);

// The settings of its allocator alone, from the trace at `path`.
int ht_recorded_settings_read(const char *path, struct ht_recorded_settings *settings,
                              struct ht_error *error);

// What is replayed is not this program as it ran: its figures are not to be set beside the replays'.
void ht_recorded_program_other(struct ht_recorded_program *program);

// It ran on another machine: the same, but what it held beside its heap stays its own.
void ht_recorded_program_elsewhere(struct ht_recorded_program *program);

void ht_recorded_program_free(struct ht_recorded_program *program);

#endif
