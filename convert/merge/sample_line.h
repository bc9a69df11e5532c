// SPDX-License-Identifier: Apache-2.0
// The recorded process's own samples on their way into the trace. What the program maps for itself is
// measured less often than RssAnon: counting it costs 5 us a MiB and more, and the recorder may spend a small part of the
// run on it. Between two measurements it is taken to have moved with RssAnon, or in a straight line over time where that
// went another way, but never so that the heap changed by more than the calls since the measurement allow.
// Some samples looked for the heap itself: what is resident where blocks lie. Then the rest is own memory, whatever the hooks
// knew of it; and between two looks, what these counted counts only if at both the same was missing from it.
#ifndef HEAPTAPE_SAMPLE_LINE_H
#define HEAPTAPE_SAMPLE_LINE_H

#include "heap_model.h"
#include "merge_result.h"

enum { SAMPLES_HELD_MAX = 4096 };

// A sample, and what the recorded calls before it say of the heap.
struct line_sample {
    struct ht_sample sample;
    uint64_t live_bytes, allocated_bytes;  // the latter in all
    uint64_t filled_bytes;  // of allocated_bytes: before the last sample, so filled by now; set in here
    uint64_t heap_bytes;    // of a look: what is resident where blocks lie
    uint64_t
        mapped_bytes;   // of another: what the program had mapped for itself at most, plus one; 0: not known
    bool looked, late;  // late: also where blocks from before the recording may lie
};

struct sample_line {
    struct ht_trace_writer *writer;  // NULL: only the totals are wanted
    struct merge_totals *totals;
    struct line_sample last_fresh;  // the last look, if there was any
    bool any_fresh, any_look, many_threads;
    bool has_tables;       // of an allocator's own, of the log that sample_line_has_tables was asked about
    int64_t missed_bytes;  // of own memory, by what the hooks knew at the last look
    uint64_t
        unplaced_bytes;  // of the heap, as far as it may be own memory, or of blocks from before the recording
    uint64_t allocated_bytes;  // at the last sample of any kind
    size_t held_count;
    struct line_sample held[SAMPLES_HELD_MAX];  // since the last measurement
};

// Whether the recorded allocator keeps tables in mappings where no block lies. glibc does not.
bool sample_line_has_tables(const struct ht_raw_log *log);

// What was told of where memory lies, if it was told of the sample with that stamp.
void line_sample_take(struct line_sample *sample, const struct heap_pieces *pieces, uint64_t stamp);
void sample_line_put(struct sample_line *line, const struct line_sample *sample);
// Takes a sample that is written into the peaks of the totals.
void sample_line_count(struct merge_totals *totals, const struct ht_sample *sample);
// Writes what is held: no further measurement comes.
void sample_line_end(struct sample_line *line);

#endif
